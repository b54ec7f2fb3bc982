import { join } from 'node:path';
import { commitFiles, defineEffect, gitIn, makeRepo, useTestDatabase, type Git } from '@sluice/testkit';
import { expect, test, vi } from 'vitest';
import { onBranches, queuedBy } from './support/definition.ts';
import { sampleInvariants } from './support/sample-invariants.ts';
import { until } from './support/until.ts';
import { useSystem } from './support/use-system.ts';

vi.setConfig({ testTimeout: 300_000 });
const database = useTestDatabase();
const system = useSystem(database);

const REPOS = 4;
const PUSHERS = 20;
const PUSHES_EACH = 2;
const CAP = 2;

test('two dispatchers and twenty people who push at once: every invariant holds at every moment', async () => {
  const { db } = database;
  const pusher = await system.startPusher();
  const env = { SLUICE_REPO_CAP: String(CAP), SLUICE_SLOTS: '4', SLUICE_LEASE_MS: '60000' };
  const dispatchers = await Promise.all([
    system.startDispatcher({ pusherUrl: pusher.url, env }),
    system.startDispatcher({ pusherUrl: pusher.url, env }),
  ]);
  const remoteOf = (person: number): string => `${pusher.url}/load/r${person % REPOS}.git`;
  const setUp = await makeRepo(join(system.folder, 'set-up'));
  await defineEffect(setUp, 'ci', onBranches('echo "$SLUICE_REF"', { dedup: 'push' }));
  for (let repo = 0; repo < REPOS; repo += 1)
    await setUp(['push', '--quiet', remoteOf(repo), 'refs/meta/effects/ci']);
  const people: Git[] = [];
  for (let person = 0; person < PUSHERS; person += 1) {
    const work = await makeRepo(join(system.folder, `person-${person}`));
    await commitFiles(work, { 'name.txt': `person ${person}` });
    people.push(work);
  }

  const sampler = sampleInvariants(db, { cap: CAP });
  const queued = await Promise.all(
    people.map(async (work, person) => {
      const ids: bigint[] = [];
      for (let round = 0; round < PUSHES_EACH; round += 1) {
        if (round > 0) await commitFiles(work, { 'name.txt': `person ${person}, again` });
        const pushed = await work.attempt(['push', remoteOf(person), `main:p${person}`]);
        expect([pushed.code, pushed.stderr]).toEqual([0, expect.stringContaining('queued')]);
        ids.push(...queuedBy(pushed.stderr).map(({ id }) => id));
      }
      return ids;
    }),
  );
  const ids = queued.flat();
  expect(new Set(ids).size).toBe(PUSHERS * PUSHES_EACH);
  await until('every effect is finished', async () => {
    const rows = await db.selectFrom('effect_history').select('effect_id').execute();
    return rows.length >= ids.length;
  });
  const { violations, samples, mostClaimed } = await sampler.stop();
  expect(violations).toEqual([]);
  expect(samples).toBeGreaterThan(10);
  expect(mostClaimed).toBeLessThanOrEqual(8);

  const history = await db
    .selectFrom('effect_history')
    .select(['effect_id', 'state', 'outcome', 'attempts', 'claimant'])
    .orderBy('effect_id')
    .execute();
  expect(history.map(({ effect_id }) => effect_id)).toEqual(ids.toSorted((a, b) => (a < b ? -1 : 1)));
  expect(history.filter(({ outcome, attempts }) => outcome !== 'pass' || attempts !== 1)).toEqual([]);
  const known = new Set(dispatchers.map(({ dispatcherId }) => dispatcherId));
  expect(history.filter(({ claimant }) => !known.has(claimant ?? ''))).toEqual([]);
  expect(await db.selectFrom('effect_queue').select('effect_id').execute()).toEqual([]);

  // What git shows is what the table says.
  for (let repo = 0; repo < REPOS; repo += 1) {
    const listed = await gitIn(system.folder)(['ls-remote', '--refs', remoteOf(repo)]);
    const rows = await db
      .selectFrom('ref')
      .select(['name', 'oid'])
      .where('repo_id', '=', `load/r${repo}`)
      .orderBy('name')
      .execute();
    expect(listed.split('\n')).toEqual(rows.map(({ name, oid }) => `${oid}\t${name}`));
  }
});
