import { existsSync, readdirSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { table } from '@sluice/db';
import { commitFileAt, commitFiles, gitIn } from '@sluice/testkit';
import { sql } from 'kysely';
import { expect, test, vi } from 'vitest';
import { BOUND, REFSPECS, useCrashScene, type Work } from './crash-scene.ts';
import { addGarbage, agePacks, expectWhole, has, maintain, packsOf } from './prune-scene.ts';
import { send } from './raw-push.ts';

const scene = useCrashScene();
const OLD_DAYS = 30;
const DAY_MS = 24 * 3_600_000;

interface Pushed extends Work {
  url: string;
  remote: string;
  folder: string;
}

async function pushed(): Promise<Pushed> {
  const { url } = await scene.start({ SLUICE_MAINTENANCE_MS: '0' });
  const made = await scene.makeWork();
  const remote = `${url}/${made.repoId}.git`;
  await made.work(['push', '--quiet', remote, ...REFSPECS]);
  return { ...made, url, remote, folder: scene.repoFolderOf(made.repoId) };
}

/** Main moves to a commit without the former one as its ancestor. */
async function forcePush({ work, remote }: Pushed): Promise<string> {
  await work(['checkout', '--quiet', '--orphan', 'anew']);
  const commit = await commitFiles(work, { 'a.txt': 'anew' });
  await work(['push', '--quiet', '--force', remote, 'anew:main']);
  return commit;
}

async function ageReflog(repoId: string, days: number): Promise<void> {
  await sql`update ${table('reflog')} set created_at = created_at - ${days} * interval '1 day'
             where repo_id = ${repoId}`.execute(scene.database.db);
}

test('a repository whose packs have become many is repacked by itself, and says so', async () => {
  const { work, repoId, folder } = await pushed();
  await addGarbage(folder, 30);
  const { url } = await scene.start({ SLUICE_MAINTENANCE_MS: '100' });
  await vi.waitFor(
    () =>
      expect(scene.events).toContainEqual(
        expect.objectContaining({
          event: 'repo_maintained',
          repo_id: repoId,
          packs_before: 31,
          packs_after: packsOf(folder).length,
          repacked: true,
        }),
      ),
    BOUND,
  );
  expect(packsOf(folder).length).toBeLessThan(5);
  await expectWhole(folder);
  for (const made of ['objects/info/commit-graphs/commit-graph-chain', 'sluice-maintained'])
    expect(existsSync(join(folder, made))).toBe(true);
  expect((await send(`${url}/_metrics`)).text).toContain('sluice_maintenance_total{outcome="done"} 1\n');
  await commitFiles(work, { 'a.txt': 'next' });
  await work(['push', '--quiet', `${url}/${repoId}.git`, 'main']);
  await gitIn(scene.folder)(['clone', '--quiet', `${url}/${repoId}.git`, 'clone']);
});

test('a repository with few packs is left alone, and so is one that somebody else is at', async () => {
  const { repoId, folder } = await pushed();
  expect(await maintain(scene, repoId)).toBeNull();
  await addGarbage(folder, 30);
  writeFileSync(join(folder, 'sluice-maintenance.lock'), '1 x another-host\n');
  expect(await maintain(scene, repoId)).toBeNull();
  expect(packsOf(folder)).toHaveLength(31);
});

test('what no push named is taken out when it is two weeks old, and what refs name or named stays', async () => {
  const scenery = await pushed();
  const { commit, repoId, folder } = scenery;
  const anew = await forcePush(scenery);
  const [garbage] = await addGarbage(folder, 1);
  agePacks(folder, 13);
  expect(await maintain(scene, repoId)).toBeNull();
  agePacks(folder, OLD_DAYS);
  const [young] = await addGarbage(folder, 1);
  const packsWithYoung = packsOf(folder);
  expect(await maintain(scene, repoId)).toMatchObject({ prune: { packs: { length: 3 } } });
  expect(await has(folder, garbage!)).toBe(false);
  expect(await Promise.all([commit, anew, young!].map((oid) => has(folder, oid)))).toEqual([
    true,
    true,
    true,
  ]);
  await expectWhole(folder);
  // Once more only a week later, and if there is something that it has not seen: what it wrote stays as it is.
  agePacks(folder, OLD_DAYS);
  expect(await maintain(scene, repoId)).toBeNull();
  const lastWeek = new Date(Date.now() - 8 * DAY_MS);
  utimesSync(join(folder, 'sluice-pruned'), lastWeek, lastWeek);
  const [written] = packsOf(folder).filter((name) => !packsWithYoung.includes(name));
  expect(await maintain(scene, repoId)).toMatchObject({ prune: { packs: { length: 1 } } });
  expect(packsOf(folder)).toEqual([written]);
  await expectWhole(folder);
});

test('with SLUICE_KEEP_DAYS, a commit goes that refs named longer ago, unless it governed or an effect is still about it', async () => {
  const scenery = await pushed();
  const { commit, repoId, folder, work, remote } = scenery;
  const policies: string[] = [];
  for (const text of ['rules: {}\n', 'rules: { refs/heads/x: { force: false } }\n']) {
    policies.push(await commitFileAt(work, 'refs/meta/config', 'policy.yaml', text));
    await work(['push', '--quiet', '--force', remote, 'refs/meta/config']);
  }
  const anew = await forcePush(scenery);
  await ageReflog(repoId, 50);
  const pruneAgain = async (keepDays: number): Promise<void> => {
    agePacks(folder, OLD_DAYS);
    const stamp = join(folder, 'sluice-pruned');
    const lastMonth = new Date(Date.now() - 31 * DAY_MS);
    if (existsSync(stamp)) utimesSync(stamp, lastMonth, lastMonth);
    expect(await maintain(scene, repoId, { keepDays })).toMatchObject({
      prune: { packs: expect.anything() },
    });
    await expectWhole(folder);
  };
  // The first push has an effect that waits.
  await pruneAgain(40);
  expect(await has(folder, commit)).toBe(true);
  await scene.database.db.deleteFrom('effect_queue').where('repo_id', '=', repoId).execute();
  await pruneAgain(60);
  expect(await has(folder, commit)).toBe(true);
  await pruneAgain(40);
  const found = await Promise.all([commit, anew, ...policies].map((oid) => has(folder, oid)));
  expect(found).toEqual([false, true, true, true]);
});

test('nothing is taken out of a repository that lacks something, or whose pushes were lost', async () => {
  const { repoId, folder, commit } = await pushed();
  const [garbage] = await addGarbage(folder, 1);
  agePacks(folder, OLD_DAYS);
  await sql`update ${table('ref')} set oid = ${'f'.repeat(40)} where repo_id = ${repoId} and oid <> ${commit}`.execute(
    scene.database.db,
  );
  expect(await maintain(scene, repoId)).toMatchObject({
    prune: { putOff: 'an object that a ref names is missing' },
  });
  writeFileSync(join(folder, 'sluice-lost-pushes'), '');
  expect(await maintain(scene, repoId)).toMatchObject({
    prune: { putOff: 'pushes were lost, and their objects may be needed' },
  });
  expect(await has(folder, garbage!)).toBe(true);
  expect(readdirSync(folder)).not.toContain('sluice-pruned');
});
