import { join } from 'node:path';
import { commitFiles, defineEffect, makeRepo, useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { expect, test, vi } from 'vitest';
import { onBranches } from './support/definition.ts';
import { untilEffect } from './support/effects.ts';
import { useSystem } from './support/use-system.ts';

vi.setConfig({ testTimeout: 300_000 });
const database = useTestDatabase();
const system = useSystem(database);

test('with default settings the effect of a killed dispatcher is claimed by another when its lease of 20 s is over', async () => {
  const { db } = database;
  const defaults = { SLUICE_LEASE_MS: '', SLUICE_BEAT_MS: '', SLUICE_POLL_MS: '' };
  const pusher = await system.startPusher();
  const gate = system.makeGate();
  const first = await system.startDispatcher({ pusherUrl: pusher.url, env: defaults });
  const work = await makeRepo(join(system.folder, 'work'));
  await commitFiles(work, { 'a.txt': 'a' });
  await defineEffect(work, 'ci', onBranches(gate.command));
  await work(['push', '--quiet', `${pusher.url}/lease.git`, 'main', 'refs/meta/effects/ci']);
  await untilEffect(db, 'lease', { state: 'claimed' });
  const { rows } = await sql<{ lease_ms: number }>`select lease_ms from sluice.dispatcher`.execute(db);
  expect(rows).toEqual([{ lease_ms: 20_000 }]);

  gate.open();
  const second = await system.startDispatcher({
    pusherUrl: pusher.url,
    env: defaults,
    paths: [gate.path],
  });
  first.signal('SIGKILL');
  expect(await untilEffect(db, 'lease', { state: 'done' })).toMatchObject({
    outcome: 'pass',
    attempts: 2,
    claimant: second.dispatcherId,
  });
});
