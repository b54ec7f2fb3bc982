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
const CAP = 2;

interface Load {
  pusherUrl: string;
  /** Repositories are named after it. */
  name: string;
  pushesEach: number;
}

/** Twenty people push to four repositories at once; returns the ids of the effects that their pushes named. */
async function pushAll({ pusherUrl, name, pushesEach }: Load): Promise<bigint[]> {
  const remoteOf = (person: number): string => `${pusherUrl}/${name}/r${person % REPOS}.git`;
  const setUp = await makeRepo(join(system.folder, 'set-up'));
  await defineEffect(setUp, 'ci', onBranches('echo "$SLUICE_REF"', { dedup: 'push', maxAttempts: 50 }));
  for (let repo = 0; repo < REPOS; repo += 1)
    await setUp(['push', '--quiet', remoteOf(repo), 'refs/meta/effects/ci']);
  const people: Git[] = [];
  for (let person = 0; person < PUSHERS; person += 1) {
    const work = await makeRepo(join(system.folder, `person-${person}`));
    await commitFiles(work, { 'name.txt': `person ${person}` });
    people.push(work);
  }
  const queued = await Promise.all(
    people.map(async (work, person) => {
      const ids: bigint[] = [];
      for (let round = 0; round < pushesEach; round += 1) {
        if (round > 0) await commitFiles(work, { 'name.txt': `person ${person}, again` });
        const pushed = await work.attempt(['push', remoteOf(person), `main:p${person}`]);
        expect([pushed.code, pushed.stderr]).toEqual([0, expect.stringContaining('queued')]);
        ids.push(...queuedBy(pushed.stderr).map(({ id }) => id));
      }
      return ids;
    }),
  );
  const ids = queued.flat().toSorted((a, b) => (a < b ? -1 : 1));
  expect(new Set(ids).size).toBe(PUSHERS * pushesEach);
  return ids;
}

async function untilFinished(name: string, count: number): Promise<void> {
  await until(`${count} effects are finished`, async () => {
    const rows = await database.db
      .selectFrom('effect_history')
      .select('effect_id')
      .where('repo_id', 'like', `${name}/%`)
      .execute();
    return rows.length >= count;
  });
}

async function historyOf(name: string) {
  return await database.db
    .selectFrom('effect_history')
    .select(['effect_id', 'outcome', 'attempts', 'claimant'])
    .where('repo_id', 'like', `${name}/%`)
    .orderBy('effect_id')
    .execute();
}

/** What git shows is what the table says. */
async function expectSameRefs({ pusherUrl, name }: Load): Promise<void> {
  for (let repo = 0; repo < REPOS; repo += 1) {
    const repoId = `${name}/r${repo}`;
    const listed = await gitIn(system.folder)(['ls-remote', '--refs', `${pusherUrl}/${repoId}.git`]);
    const rows = await database.db
      .selectFrom('ref')
      .select(['name', 'oid'])
      .where('repo_id', '=', repoId)
      .orderBy('name')
      .execute();
    expect(listed.split('\n')).toEqual(rows.map((row) => `${row.oid}\t${row.name}`));
  }
}

test('two dispatchers and twenty people who push at once: every invariant holds at every moment', async () => {
  const { url: pusherUrl } = await system.startPusher();
  const env = { SLUICE_REPO_CAP: String(CAP), SLUICE_SLOTS: '4', SLUICE_LEASE_MS: '60000' };
  const dispatchers = await Promise.all([
    system.startDispatcher({ pusherUrl, env }),
    system.startDispatcher({ pusherUrl, env }),
  ]);
  const load = { pusherUrl, name: 'load', pushesEach: 2 };
  const sampler = sampleInvariants(database.db, { cap: CAP });
  const ids = await pushAll(load);
  await untilFinished(load.name, ids.length);
  const { violations, samples, mostClaimed } = await sampler.stop();
  expect(violations).toEqual([]);
  expect(samples).toBeGreaterThan(10);
  expect(mostClaimed).toBeLessThanOrEqual(8);

  const history = await historyOf(load.name);
  expect(history.map(({ effect_id }) => effect_id)).toEqual(ids);
  expect(history.filter(({ outcome, attempts }) => outcome !== 'pass' || attempts !== 1)).toEqual([]);
  const known = new Set(dispatchers.map(({ dispatcherId }) => dispatcherId));
  expect(history.filter(({ claimant }) => !known.has(claimant ?? ''))).toEqual([]);
  await expectSameRefs(load);
});

test('a dispatcher is killed and another frozen under load: no cap is exceeded, nothing is lost or finished twice', async () => {
  const { url: pusherUrl } = await system.startPusher();
  const env = { SLUICE_REPO_CAP: String(CAP), SLUICE_SLOTS: '4' };
  const [killed, frozen] = await Promise.all([
    system.startDispatcher({ pusherUrl, env }),
    system.startDispatcher({ pusherUrl, env }),
  ]);
  const load = { pusherUrl, name: 'crash', pushesEach: 1 };
  const sampler = sampleInvariants(database.db, { cap: CAP });
  const pushing = pushAll(load);
  await untilFinished(load.name, 4);
  killed.signal('SIGKILL');
  frozen.signal('SIGSTOP');
  await system.startDispatcher({ pusherUrl, env });
  await until('the frozen one is declared dead', async () => {
    const rows = await database.db
      .selectFrom('dispatcher')
      .select('dispatcher_id')
      .where('dispatcher_id', '=', frozen.dispatcherId)
      .execute();
    return rows.length === 0;
  });
  frozen.signal('SIGCONT');
  const ids = await pushing;
  await untilFinished(load.name, ids.length);
  expect((await sampler.stop()).violations).toEqual([]);
  const history = await historyOf(load.name);
  expect(history.map(({ effect_id }) => effect_id)).toEqual(ids);
  expect(history.filter(({ outcome }) => outcome !== 'pass')).toEqual([]);
  await expectSameRefs(load);
});
