import { startTcpProxy, useTestDatabase } from '@sluice/testkit';
import { expect, test, vi } from 'vitest';
import { installCommitGate } from './support/commit-gate.ts';
import { effectsOf, resultPushes, untilEffect } from './support/effects.ts';
import { pushEffect } from './support/push-effect.ts';
import { until } from './support/until.ts';
import { eventWith, useSystem } from './support/use-system.ts';

vi.setConfig({ testTimeout: 300_000 });
const database = useTestDatabase();
const system = useSystem(database);

const push = (pusherUrl: string, repoId: string, run: string): Promise<void> =>
  pushEffect(system.folder, { pusherUrl, repoId, run });

test('the transaction of a result fails: the claim stays, and the dispatcher pushes the result again', async () => {
  const { db } = database;
  const commits = await installCommitGate(db);
  // No second try of its own: it refuses, and the dispatcher has to come back.
  const pusher = await system.startPusher({ SLUICE_DATABASE_WAIT_MS: '0' });
  const gate = system.makeGate();
  await system.startDispatcher({ pusherUrl: pusher.url, paths: [gate.path] });
  await push(pusher.url, 'result/again', gate.command);
  await untilEffect(db, 'result/again', { state: 'claimed' });
  await commits.close('result/again');
  gate.open();
  for (let failures = 1; failures <= 2; failures += 1) {
    await commits.untilHeld();
    await commits.breakHeld();
    await until('the pusher has refused the result', () => {
      const refusals = pusher.output().match(/"event":"commit_failed"/g) ?? [];
      return refusals.length >= failures;
    });
    expect(await effectsOf(db, 'result/again')).toMatchObject([{ state: 'claimed', attempts: 1 }]);
    expect(await resultPushes(db, 'result/again')).toBe(0);
  }
  await commits.open();
  expect(await untilEffect(db, 'result/again', { state: 'done' })).toMatchObject({
    outcome: 'pass',
    attempts: 1,
  });
  expect(await resultPushes(db, 'result/again')).toBe(1);
});

test('the pusher is killed in the transaction of a result: nothing of it stays, and the next pusher takes it', async () => {
  const { db } = database;
  const commits = await installCommitGate(db);
  const first = await system.startPusher();
  const target = { host: '127.0.0.1', port: Number(new URL(first.url).port) };
  await using proxy = await startTcpProxy(target);
  const gate = system.makeGate();
  await system.startDispatcher({
    pusherUrl: proxy.through(first.url).replace(/\/$/, ''),
    paths: [gate.path],
  });
  await push(first.url, 'result/killed', gate.command);
  await untilEffect(db, 'result/killed', { state: 'claimed' });
  await commits.close('result/killed');
  gate.open();
  await commits.untilHeld();
  first.signal('SIGKILL');
  await first.exited();
  await commits.open();
  target.port = Number(new URL((await system.startPusher()).url).port);
  expect(await untilEffect(db, 'result/killed', { state: 'done' })).toMatchObject({
    outcome: 'pass',
    attempts: 1,
  });
  expect(await resultPushes(db, 'result/killed')).toBe(1);
});

test('a result is committed and the answer is lost: the dispatcher asks again and finds it finished', async () => {
  const { db } = database;
  const commits = await installCommitGate(db);
  const pusher = await system.startPusher();
  await using proxy = await startTcpProxy({ host: '127.0.0.1', port: Number(new URL(pusher.url).port) });
  const gate = system.makeGate();
  const dispatcher = await system.startDispatcher({
    pusherUrl: proxy.through(pusher.url).replace(/\/$/, ''),
    paths: [gate.path],
  });
  await push(pusher.url, 'result/unheard', gate.command);
  await untilEffect(db, 'result/unheard', { state: 'claimed' });
  await commits.close('result/unheard');
  gate.open();
  await commits.untilHeld();
  proxy.freeze();
  await commits.open();
  const finished = await untilEffect(db, 'result/unheard', { state: 'done' });
  expect(finished).toMatchObject({ outcome: 'pass', attempts: 1 });
  expect(dispatcher.output()).not.toContain('"event":"effect_ended"');
  proxy.cut();
  proxy.thaw();
  const [, how] = await dispatcher.waitForOutput(eventWith('effect_ended', 'how'), 60_000);
  expect(how).toBe('settled');
  expect(await effectsOf(db, 'result/unheard')).toEqual([finished]);
  expect(await resultPushes(db, 'result/unheard')).toBe(1);
});
