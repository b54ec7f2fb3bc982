import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { commitFiles, makeRepo, useTestDatabase } from '@sluice/testkit';
import { expect, test, vi } from 'vitest';
import { installCommitGate } from './support/commit-gate.ts';
import { effectsOf, untilEffect, untilItSays } from './support/effects.ts';
import { processesWith, untilEnded } from './support/processes.ts';
import { pushEffect } from './support/push-effect.ts';
import { useSystem, type Dispatcher, type Gate } from './support/use-system.ts';

vi.setConfig({ testTimeout: 300_000 });
const database = useTestDatabase();
const system = useSystem(database);

interface Scene {
  pusherUrl: string;
  dispatcher: Dispatcher;
  gate: Gate;
}

/** One effect that runs and does not end. */
async function scene(repoId: string, graceMs: number): Promise<Scene> {
  const { url: pusherUrl } = await system.startPusher();
  const gate = system.makeGate();
  const env = { SLUICE_GRACE_MS: String(graceMs) };
  const dispatcher = await system.startDispatcher({ pusherUrl, env });
  await pushEffect(system.folder, { pusherUrl, repoId, run: gate.command });
  const { effectId } = await untilEffect(database.db, repoId, { state: 'claimed' });
  await untilItSays(database.db, { effectId, attempt: 1 }, 'started');
  return { pusherUrl, dispatcher, gate };
}

test('SIGTERM: what does not end within the grace is handed back without an attempt spent, and another finishes it', async () => {
  const { db } = database;
  const { pusherUrl, dispatcher, gate } = await scene('stop/grace', 100);
  const processes = processesWith(gate.path);
  dispatcher.signal('SIGTERM');
  expect(await dispatcher.exited(60_000)).toEqual({ code: 0, signal: null });
  await untilEnded(processes, gate.path);
  expect(await effectsOf(db, 'stop/grace')).toMatchObject([{ state: 'enqueued', attempts: 0 }]);
  expect(await db.selectFrom('dispatcher').selectAll().execute()).toEqual([]);

  gate.open();
  const second = await system.startDispatcher({ pusherUrl, paths: [gate.path] });
  expect(await untilEffect(db, 'stop/grace', { state: 'done' })).toMatchObject({
    outcome: 'pass',
    attempts: 1,
    claimant: second.dispatcherId,
  });
});

test('a second SIGTERM hurries: the effect is handed back long before the grace is over', async () => {
  const { db } = database;
  const { dispatcher, gate } = await scene('stop/hurry', 3_600_000);
  const processes = processesWith(gate.path);
  dispatcher.signal('SIGTERM');
  await dispatcher.waitForOutput(/"event":"shutdown_started"/);
  // Two signals within a tenth of a second are one key press.
  await sleep(300);
  dispatcher.signal('SIGTERM');
  expect(await dispatcher.exited(60_000)).toEqual({ code: 143, signal: null });
  await untilEnded(processes, gate.path);
  expect(await effectsOf(db, 'stop/hurry')).toMatchObject([{ state: 'enqueued', attempts: 0 }]);
});

test('SIGTERM to the pusher: a push that is under way is finished, and then the process ends', async () => {
  const pusher = await system.startPusher();
  const work = await makeRepo(join(system.folder, 'work'));
  await commitFiles(work, { 'a.txt': 'a' });
  await work(['push', '--quiet', `${pusher.url}/stop/pusher.git`, 'main']);
  await commitFiles(work, { 'b.txt': 'b' });
  const commits = await installCommitGate(database.db);
  await commits.close('stop/pusher');
  const pushing = work.attempt(['push', `${pusher.url}/stop/pusher.git`, 'main']);
  await commits.untilHeld();
  pusher.signal('SIGTERM');
  await pusher.waitForOutput(/"event":"shutdown_started"/);
  await commits.open();
  expect((await pushing).code).toBe(0);
  expect(await pusher.exited(60_000)).toEqual({ code: 0, signal: null });
});
