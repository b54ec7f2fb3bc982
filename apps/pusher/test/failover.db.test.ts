import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { commitFiles, gitIn } from '@sluice/testkit';
import { expect, test, vi } from 'vitest';
import { BOUND, REFSPECS, useCrashScene, type Work } from './crash-scene.ts';
import { agePacks, expectWhole, has, maintain } from './prune-scene.ts';
import { saveDatabase } from './save-database.ts';

const scene = useCrashScene();

interface Lost extends Work {
  url: string;
  remote: string;
  folder: string;
  /** The commit of the push that was accepted and that the database has lost. */
  lost: string;
  lostPushId: string;
}

/** Two pushes were accepted; then another server takes over, which has the first one only. */
async function failOver(): Promise<Lost> {
  const { url } = await scene.start({ SLUICE_MAINTENANCE_MS: '0' });
  const made = await scene.makeWork();
  const { work, repoId } = made;
  const remote = `${url}/${repoId}.git`;
  await work(['push', '--quiet', remote, ...REFSPECS]);
  const loseTheRest = await saveDatabase(scene.database.db);
  const lost = await commitFiles(work, { 'a.txt': 'lost' });
  const { code, stderr } = await work.attempt(['push', remote, 'main', 'main:lost']);
  expect(code).toBe(0);
  const [, lostPushId] = /remote: push ([0-9a-f]{40})/.exec(stderr)!;
  await scene.untilCached(repoId, 2);
  await loseTheRest();
  return { ...made, url, remote, folder: scene.repoFolderOf(repoId), lost, lostPushId: lostPushId! };
}

const event = ({ repoId, lostPushId }: Lost) => ({
  event: 'pushes_lost',
  repo_id: repoId,
  push_id: lostPushId,
  refs_version: 2n,
});

test('row 11: under a running pusher, a lost push is reported, its refs are shown no more, and pushing again makes it up', async () => {
  const scenery = await failOver();
  const { work, remote, repoId, commit, lost, folder } = scenery;
  const reader = gitIn(scene.folder);
  const listed = await reader(['ls-remote', remote]);
  expect(listed).toContain(`${commit}\trefs/heads/main`);
  expect(listed).not.toContain(lost);
  expect(scene.events).toContainEqual(event(scenery));
  expect(await scene.rowsOf(repoId)).toEqual({ refs: 2, pushes: 1, effects: 1 });

  // The versions that the lost history used are used again, for something else.
  const { code, stderr } = await work.attempt(['push', remote, 'main']);
  expect([code, stderr]).toEqual([0, expect.stringMatching(/remote: push [0-9a-f]{40}/)]);
  expect(await reader(['ls-remote', remote])).toContain(`${lost}\trefs/heads/main`);
  expect(await reader(['ls-remote', remote])).not.toContain('refs/heads/lost');
  expect(await scene.rowsOf(repoId)).toEqual({ refs: 2, pushes: 2, effects: 2 });
  await reader(['clone', '--quiet', remote, 'clone']);
  expect(await gitIn(join(scene.folder, 'clone'))(['rev-parse', 'HEAD'])).toBe(lost);
  await expectWhole(folder);
});

test('row 11: a pusher that starts after it reports it by itself, and the objects of the lost push stay', async () => {
  const scenery = await failOver();
  const { folder, repoId, lost } = scenery;
  // The machine went down as well.
  const cache = join(folder, 'packed-refs');
  writeFileSync(cache, readFileSync(cache, 'utf8').replace(/ boot=\S+/, ' boot=an-earlier-one'));
  await scene.start({ SLUICE_MAINTENANCE_MS: '0' });
  await vi.waitFor(() => expect(scene.events).toContainEqual(event(scenery)), BOUND);
  agePacks(folder, 30);
  expect(await maintain(scene, repoId)).toMatchObject({
    prune: { putOff: 'pushes were lost, and their objects may be needed' },
  });
  expect(await has(folder, lost)).toBe(true);
});
