import { join } from 'node:path';
import { createPolicy } from '@sluice/effect-spec';
import { loadServerKey } from '@sluice/ref-store';
import { useTempFolder, useTestDatabase } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { commitInTransaction } from './commit-transaction.ts';
import { UNGOVERNED } from './governance.ts';

const database = useTestDatabase();
const folder = useTempFolder();

test.each([
  [true, 'expected an admin: refs/heads/** is for admins; sluice hook install --admin names the admins'],
  [false, 'expected a token with admin: refs/heads/** is for admins'],
])(
  'a policy that changed since a push was let in speaks to its sender: isUser %s',
  async (isUser, reason) => {
    const policy = createPolicy([{ pattern: 'refs/heads/**', roles: ['admin'] }]);
    const outcome = await commitInTransaction(database.db, await loadServerKey(join(folder.path, 'key')), {
      repoId: 'acme/api',
      objectFormat: 'sha1',
      edits: [{ name: 'refs/heads/main', expect: 'absent', to: 'a'.repeat(40) }],
      facts: new Map(),
      forward: new Set(),
      members: new Map(),
      definitionsAt: () => Promise.resolve(new Map()),
      governanceOf: () => Promise.resolve({ ...UNGOVERNED, policy }),
      memberBytesOf: () => Promise.resolve(0),
      effectsMax: 1,
      refsMax: 1,
      pushOptions: [],
      caller: {
        signer: null,
        roles: () => ['writer'],
        isServerAdmin: false,
        isUser,
        judgeAgain: () => Promise.resolve(null),
      },
      signature: null,
      result: null,
      onReady: () => {},
    });
    expect(outcome).toEqual({ status: 'refused', reasons: new Map([['refs/heads/main', reason]]) });
  },
);
