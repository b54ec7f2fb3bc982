import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { commitFiles, defineEffect, makeRepo, useTestDatabase } from '@sluice/testkit';
import { expect, test, vi } from 'vitest';
import { onBranches } from './support/definition.ts';
import { effectsOf } from './support/effects.ts';
import { processesWith } from './support/processes.ts';
import { until } from './support/until.ts';
import { useSystem } from './support/use-system.ts';

vi.setConfig({ testTimeout: 300_000 });
const database = useTestDatabase();
const system = useSystem(database);
const REPO = 'forced/restart';

test('a dispatcher is killed in the middle of its stop, and two start at once: under a cap of 1 never two effects run', async () => {
  const { db } = database;
  const pusher = await system.startPusher();
  const gates = [system.makeGate(), system.makeGate(), system.makeGate()];
  const work = await makeRepo(join(system.folder, 'work'));
  await commitFiles(work, { 'a.txt': 'a' });
  for (const [n, { path, command }] of gates.entries())
    await defineEffect(work, `e${n}`, onBranches(`${command}; ls ${path}; sleep 0.5`));
  const definitions = gates.map((_, n) => `refs/meta/effects/e${n}`);
  await work(['push', '--quiet', `${pusher.url}/${REPO}.git`, 'main', ...definitions]);
  await db.updateTable('repo').set({ cap: 1 }).where('repo_id', '=', REPO).execute();

  const most = { claims: 0, running: 0 };
  let isOver = false;
  const sampling = (async () => {
    while (!isOver) {
      const claims = await db.selectFrom('effect_claim').select('effect_id').execute();
      most.claims = Math.max(most.claims, claims.length);
      most.running = Math.max(
        most.running,
        gates.filter(({ path }) => processesWith(path).length > 0).length,
      );
      await setImmediate();
    }
  })();

  const first = await system.startDispatcher({ pusherUrl: pusher.url, env: { SLUICE_GRACE_MS: '1000' } });
  await until('one runs', () => most.running > 0);
  first.signal('SIGTERM');
  await first.waitForOutput(/"event":"shutdown_started"/);
  first.signal('SIGKILL');
  await first.exited();
  for (const gate of gates) gate.open();
  const paths = gates.map(({ path }) => path);
  const start = () => system.startDispatcher({ pusherUrl: pusher.url, paths });
  await Promise.all([start(), start()]);
  await until('all have run', async () => (await effectsOf(db, REPO)).every(({ state }) => state === 'done'));
  isOver = true;
  await sampling;

  expect(most).toEqual({ claims: 1, running: 1 });
  const effects = await effectsOf(db, REPO);
  expect(effects.map(({ outcome }) => outcome)).toEqual(['pass', 'pass', 'pass']);
  // The stop was cut off, so nothing was handed back: one attempt is spent.
  expect(effects.map(({ attempts }) => attempts).toSorted((a, b) => a - b)).toEqual([1, 1, 2]);
});
