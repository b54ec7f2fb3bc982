import { join } from 'node:path';
import {
  commitFiles,
  defineEffect,
  gitIn,
  makeRepo,
  startPgBouncer,
  useTestDatabase,
  type PgBouncer,
} from '@sluice/testkit';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { onBranches } from './support/definition.ts';
import { effectsOf } from './support/effects.ts';
import { useSystem } from './support/use-system.ts';

vi.setConfig({ testTimeout: 300_000 });
const database = useTestDatabase();
let pgBouncer: PgBouncer | undefined;
beforeAll(async () => {
  pgBouncer = await startPgBouncer(database.url);
});
afterAll(() => pgBouncer?.[Symbol.asyncDispose]());

const system = useSystem(database);

test('both programs behind a pooler in transaction mode: every push has its effect, which runs and answers', async () => {
  const env = { DATABASE_URL: pgBouncer!.url, SLUICE_POOLER: 'transaction' };
  const pusher = await system.startPusher(env);
  const dispatchers = [
    await system.startDispatcher({ pusherUrl: pusher.url, env }),
    await system.startDispatcher({ pusherUrl: pusher.url, env }),
  ];
  const remote = `${pusher.url}/pooled/api.git`;
  const work = await makeRepo(join(system.folder, 'work'));
  await commitFiles(work, { 'a.txt': 'a' });
  await defineEffect(work, 'ci', onBranches('echo "ran $SLUICE_REF"'));
  await work(['push', '--quiet', remote, 'main', 'refs/meta/effects/ci']);
  for (let nth = 1; nth <= 6; nth += 1) {
    await work(['push', '--quiet', remote, `main:refs/heads/branch-${nth}`]);
  }
  // One commit under seven names is seven effects, one after the other under one result ref.
  await vi.waitUntil(
    async () => {
      const effects = await effectsOf(database.db, 'pooled/api');
      return effects.length === 7 && effects.every(({ state }) => state === 'done');
    },
    { timeout: 120_000, interval: 100 },
  );
  expect(await effectsOf(database.db, 'pooled/api')).toEqual(
    Array.from({ length: 7 }, () => expect.objectContaining({ outcome: 'pass', attempts: 1 })),
  );
  const results = await gitIn(system.folder)(['ls-remote', remote, 'refs/meta/results/ci/*']);
  expect(results.trim().split('\n')).toHaveLength(1);
  for (const app of [pusher, ...dispatchers]) {
    expect(app.output()).not.toContain('prepared statement');
    expect(app.output()).not.toMatch(/"level":"error"/);
  }
});
