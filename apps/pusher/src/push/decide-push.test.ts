import type { Logger } from '@sluice/service-kit';
import { expect, test } from 'vitest';
import { unavailable } from '../http-error.ts';
import { decidePush, type PushToDecide } from './decide-push.ts';
import type { PushContext } from './push-context.ts';

const ref = { name: Buffer.from('refs/heads/main'), oldOid: '0'.repeat(40), newOid: 'a'.repeat(40) };

/** A push whose objects are asked for and then cannot be read. */
function pushThatFails(error: Error): PushToDecide {
  return {
    repoId: 'acme/api',
    folder: '/nowhere',
    objectFormat: 'sha1',
    claimRef: null,
    claimNumber: null,
    announced: [ref],
    commands: [ref],
    readBrought: () => Promise.reject(error),
    pushOptions: [],
    caller: {
      signer: null,
      roles: () => [],
      isServerAdmin: false,
      isUser: false,
      judgeAgain: () => Promise.resolve(null),
    },
    signature: null,
    forwardOnly: new Map(),
  };
}

test.each([
  [unavailable('git could not be started'), 'git could not be started. Try again in a moment'],
  [
    new Error('a secret of this server'),
    'internal error; nothing was changed, try again, and the server log has the cause',
  ],
])(
  'a push that fails before its transaction is refused with what its sender may know: %s',
  async (error, reason) => {
    const events: unknown[] = [];
    const note = (event: unknown): void => void events.push(event);
    const log: Logger = { debug: note, info: note, warn: note, error: note };
    const context = { log, home: '/nowhere', settings: {} } as unknown as PushContext;
    const decision = await decidePush(context, pushThatFails(error));
    expect(decision).toMatchObject({ outcome: 'refused', reports: [{ name: ref.name, reason }] });
    expect(events).toEqual([{ event: 'push_failed', repo_id: 'acme/api', error }]);
  },
);
