import { join } from 'node:path';
import { commitFiles, defineEffect, makeRepo, startTcpProxy, useTestDatabase } from '@sluice/testkit';
import { expect, test, vi } from 'vitest';
import { onBranches } from './support/definition.ts';
import {
  effectsOf,
  outputOf,
  resultPushes,
  untilEffect,
  untilItSays,
  type EffectRow,
} from './support/effects.ts';
import { processesWith, untilEnded } from './support/processes.ts';
import { pushEffect } from './support/push-effect.ts';
import { until } from './support/until.ts';
import { eventWith, useSystem } from './support/use-system.ts';

vi.setConfig({ testTimeout: 300_000 });
const database = useTestDatabase();
const system = useSystem(database);

const push = (pusherUrl: string, repoId: string, run: string): Promise<void> =>
  pushEffect(system.folder, { pusherUrl, repoId, run });

async function untilStarted(repoId: string): Promise<EffectRow> {
  const effect = await untilEffect(database.db, repoId, { state: 'claimed' });
  await untilItSays(database.db, { effectId: effect.effectId, attempt: 1 }, 'started');
  return effect;
}

test('a dispatcher is killed while an effect runs: another finishes it as attempt 2, and the processes of the first end', async () => {
  const { db } = database;
  const pusher = await system.startPusher();
  const gate = system.makeGate();
  const first = await system.startDispatcher({ pusherUrl: pusher.url });
  await push(pusher.url, 'lost/running', gate.command);
  const { effectId, claimant } = await untilStarted('lost/running');
  expect(claimant).toBe(first.dispatcherId);
  const processes = processesWith(gate.path);
  expect(processes).not.toEqual([]);
  first.signal('SIGKILL');
  await untilEnded(processes, gate.path);

  gate.open();
  const second = await system.startDispatcher({ pusherUrl: pusher.url, paths: [gate.path] });
  expect(await untilEffect(db, 'lost/running', { state: 'done' })).toMatchObject({
    outcome: 'pass',
    attempts: 2,
    claimant: second.dispatcherId,
  });
  expect(await outputOf(db, { effectId, attempt: 1 })).not.toContain('ended');
  expect(await outputOf(db, { effectId, attempt: 2 })).toContain('ended');
});

test('a dispatcher is killed after a claim, before its effect starts: another runs it as attempt 2', async () => {
  const { db } = database;
  const pusher = await system.startPusher();
  await using proxy = await startTcpProxy({ host: '127.0.0.1', port: Number(new URL(pusher.url).port) });
  proxy.freeze();
  const first = await system.startDispatcher({ pusherUrl: proxy.through(pusher.url).replace(/\/$/, '') });
  await push(pusher.url, 'lost/claimed', 'echo ran');
  const { effectId } = await untilEffect(db, 'lost/claimed', { state: 'claimed' });
  first.signal('SIGKILL');
  await first.exited();

  const second = await system.startDispatcher({ pusherUrl: pusher.url });
  expect(await untilEffect(db, 'lost/claimed', { state: 'done' })).toMatchObject({
    outcome: 'pass',
    attempts: 2,
    claimant: second.dispatcherId,
  });
  expect(await outputOf(db, { effectId, attempt: 1 })).toBe('');
});

test('a frozen dispatcher that wakes up after its lease completes nothing, ends its processes and comes back under a new id', async () => {
  const { db } = database;
  const pusher = await system.startPusher();
  const gate = system.makeGate();
  const first = await system.startDispatcher({ pusherUrl: pusher.url });
  await push(pusher.url, 'lost/frozen', gate.command);
  await untilStarted('lost/frozen');
  const processes = processesWith(gate.path);
  expect(processes).not.toEqual([]);
  first.signal('SIGSTOP');

  gate.open();
  const second = await system.startDispatcher({ pusherUrl: pusher.url, paths: [gate.path] });
  const finished = await untilEffect(db, 'lost/frozen', { state: 'done' });
  expect(finished).toMatchObject({ outcome: 'pass', attempts: 2, claimant: second.dispatcherId });
  const stillThere = processesWith(gate.path).filter((pid) => processes.includes(pid));
  expect(stillThere).not.toEqual([]);

  first.signal('SIGCONT');
  await first.waitForOutput(/"event":"dispatcher_declared_dead"/, 60_000);
  await untilEnded(processes, gate.path);
  // The second stays silent, so that the next effect is the first one's.
  second.signal('SIGTERM');
  await second.exited(60_000);
  const now = await until('the first is registered again', () =>
    db.selectFrom('dispatcher').select('dispatcher_id').where('pid', '=', first.pid).executeTakeFirst(),
  );
  expect(now.dispatcher_id).not.toBe(first.dispatcherId);
  expect(await effectsOf(db, 'lost/frozen')).toEqual([finished]);
  expect(await resultPushes(db, 'lost/frozen')).toBe(1);

  // It works again.
  const work = await makeRepo(join(system.folder, 'more'));
  await commitFiles(work, { 'b.txt': 'b' });
  await defineEffect(work, 'more', onBranches('echo more'));
  await work(['push', '--quiet', `${pusher.url}/lost/thawed.git`, 'main', 'refs/meta/effects/more']);
  expect(await untilEffect(db, 'lost/thawed', { state: 'done' })).toMatchObject({ outcome: 'pass' });
});

test('a frozen dispatcher whose command ended meanwhile cannot complete the claim that it lost', async () => {
  const { db } = database;
  const pusher = await system.startPusher();
  const [own, other] = [system.makeGate(), system.makeGate()];
  const first = await system.startDispatcher({ pusherUrl: pusher.url, paths: [own.path] });
  const run = `echo started; while [ ! -e ${own.path}/open ] && [ ! -e ${other.path}/open ]; do sleep 0.05; done; echo from $SLUICE_COMMIT`;
  await push(pusher.url, 'lost/late', run);
  await untilStarted('lost/late');
  const processes = processesWith(own.path);
  first.signal('SIGSTOP');
  own.open();
  await untilEnded(processes, own.path);

  other.open();
  const second = await system.startDispatcher({ pusherUrl: pusher.url, paths: [other.path] });
  const finished = await untilEffect(db, 'lost/late', { state: 'done' });
  expect(finished).toMatchObject({ attempts: 2, claimant: second.dispatcherId });
  first.signal('SIGCONT');
  await first.waitForOutput(eventWith('effect_ended', 'how'), 60_000);
  expect(await effectsOf(db, 'lost/late')).toEqual([finished]);
  expect(await resultPushes(db, 'lost/late')).toBe(1);
});
