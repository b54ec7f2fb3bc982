import { execFileSync } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { commitFiles, defineEffect, useTestDatabase, type Git } from '@sluice/testkit';
import { expect, test, vi } from 'vitest';
import { onBranches } from './support/definition.ts';
import { effectsOf } from './support/effects.ts';
import { makeRebuildScene } from './support/rebuild-scene.ts';
import { useSystem } from './support/use-system.ts';

vi.setConfig({ testTimeout: 300_000 });
const database = useTestDatabase();
const system = useSystem(database);

test('what a push asked not to run, or a newer effect replaced, does not come back', async () => {
  const { db } = database;
  const repoId = 'rebuild/rules';
  const scene = await makeRebuildScene(database, system, repoId);
  const { work, push, queue, loseQueue, rebuild } = scene;
  const concurrency = { group: 'deploy-{ref}', supersede: true };
  await defineEffect(work, 'deploy', onBranches('true', { concurrency }));
  await commitFiles(work, { 'a.txt': 'one' });
  await push('main', 'refs/meta/effects/deploy');
  await push('main:refs/heads/other');
  await commitFiles(work, { 'a.txt': 'two' });
  await push('main');
  await commitFiles(work, { 'a.txt': 'three' });
  await push('-o', 'ci.skip', 'main:refs/heads/skipped');
  const before = await queue();
  expect(before).toHaveLength(2);

  await loseQueue();
  await db.updateTable('repo').set({ max_queued: 1 }).where('repo_id', '=', repoId).execute();
  const full = await rebuild();
  expect([full.code, full.output]).toEqual([
    1,
    expect.stringMatching(
      /^sluice: rebuild\/rules has no room for 2 effects.*\n {2}next: .*--max-queued none/m,
    ),
  ]);
  expect(await effectsOf(db, repoId)).toEqual([]);

  await db.updateTable('repo').set({ max_queued: null }).where('repo_id', '=', repoId).execute();
  expect((await rebuild()).stdout).toContain(
    '2 effects came back; 0 with a result, 0 in the queue or its history, 1 replaced by a newer one',
  );
  expect(await queue()).toEqual(before);

  // A newer effect that the queue kept replaces what an older push asked for.
  await loseQueue();
  await commitFiles(work, { 'a.txt': 'four' });
  await push('main');
  expect((await rebuild()).stdout).toContain(
    '1 effect came back; 0 with a result, 1 in the queue or its history, 2 replaced by a newer one',
  );
});

test('pushes that come in meanwhile lose nothing and double nothing', async () => {
  const repoId = 'rebuild/meanwhile';
  const scene = await makeRebuildScene(database, system, repoId);
  const { work, push, queue, loseQueue, rebuild } = scene;
  await defineEffect(work, 'ci', onBranches('true'));
  await push('refs/meta/effects/ci');
  const commits: string[] = [];
  const pushNext = async (): Promise<void> => {
    commits.push(await commitFiles(work, { 'a.txt': String(commits.length) }));
    await push('main');
  };
  for (let n = 0; n < 3; n += 1) await pushNext();
  await loseQueue();
  const pushing = (async () => {
    for (let n = 0; n < 5; n += 1) await pushNext();
  })();
  const results = [await rebuild(), await rebuild()];
  await pushing;
  expect(results.map(({ code }) => code)).toEqual([0, 0]);
  const queued = (await queue()).map(({ payload }) => JSON.parse(String(payload)).source.commit);
  expect(queued).toHaveLength(commits.length);
  expect(new Set(queued)).toEqual(new Set(commits));
  expect((await rebuild()).stdout).toContain('0 effects came back; 0 with a result, 8 in the queue');
});

test('what cannot be read is said, and the rest comes back', async () => {
  const repoId = 'rebuild/gaps';
  const scene = await makeRebuildScene(database, system, repoId);
  const { work, push, queue, loseQueue, rebuild } = scene;
  const stored = [await defineEffect(work, 'ci', onBranches('true'))];
  const lost = await defineEffect(work, 'lint', onBranches('true'));
  stored.push(await commitFiles(work, { 'a.txt': 'one' }));
  const pushed = await push('main', 'refs/meta/effects/*');
  const pushId = /remote: push ([0-9a-f]{40})/.exec(pushed)![1]!;
  const [ci] = await queue();
  expect(ci).toMatchObject({ name: 'ci' });

  await loseQueue();
  for (const oid of stored) await storeCommit(work, repoId, oid);
  await rm(join(system.folder, 'data', 'repos'), { recursive: true });
  const { code, stdout, output } = await rebuild();
  expect([code, stdout]).toEqual([1, expect.stringContaining('1 effect came back; 0 with a result')]);
  expect(await queue()).toEqual([ci]);
  expect(output).toContain(
    `rebuild/gaps: missing the definition lint at ${lost} (it cannot be read); what push ${pushId} asked of it is not known\n`,
  );
  expect(output).toMatch(/^sluice: what 1 of 1 repositories asked for is not fully known\n {2}next: /m);
});

/** Keeps a commit, its tree and the tree's only file in the database. */
async function storeCommit(work: Git, repoId: string, commit: string): Promise<void> {
  const file = (await work(['ls-tree', '--name-only', commit])).trim();
  for (const name of [commit, `${commit}^{tree}`, `${commit}:${file}`]) {
    const oid = await work(['rev-parse', name]);
    const kind = await work(['cat-file', '-t', oid]);
    const bytes = execFileSync('git', ['cat-file', kind, oid], { cwd: work.folder });
    await database.db.insertInto('small_object').values({ repo_id: repoId, oid, kind, bytes }).execute();
  }
}
