import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { commitFiles, gitIn, makeRepo, type Git } from '@sluice/testkit';
import { expect, test, vi } from 'vitest';
import { BOUND, REFSPECS, useCrashScene, WHOLE } from './crash-scene.ts';
import { packOf } from './pack-of.ts';
import { preamble, reportOf, send, sendPush } from './raw-push.ts';

const scene = useCrashScene();

/** A repository that was pushed to, and a copy of its folder. */
async function pushed(): Promise<{
  url: string;
  remote: string;
  work: Git;
  commit: string;
  repoId: string;
  folder: string;
  backup: string;
}> {
  const { url } = await scene.start();
  const { work, commit, repoId } = await scene.makeWork();
  const remote = `${url}/${repoId}.git`;
  await work(['push', '--quiet', remote, ...REFSPECS]);
  await scene.untilCached(repoId, 1);
  const folder = scene.repoFolderOf(repoId);
  const backup = join(scene.folder, 'backup.git');
  cpSync(folder, backup, { recursive: true });
  return { url, remote, work, commit, repoId, folder, backup };
}

async function withheld(url: string): Promise<string> {
  const { text } = await send(`${url}/_metrics`);
  return /^sluice_repos_withheld (\d+)$/m.exec(text)![1]!;
}

const WITHHELD =
  /crash\/r\d+ is withheld: 2 of its 2 refs name objects that are not on this server's disk, such as refs\/heads\/main [0-9a-f]{12}\. The refs are safe in the database\. Bring repos\/[0-9a-f]{2}\/[0-9a-f]{64}\.sha1\.git of the data folder back from a backup or a clone/;

test('row 10: the objects are gone under a running pusher: nobody is shown the refs, everybody is told; a backup brings them back', async () => {
  const { url, remote, work, commit, repoId, folder, backup } = await pushed();
  const reader = gitIn(scene.folder);
  rmSync(join(folder, 'objects'), { recursive: true });

  for (const args of [
    ['ls-remote', remote],
    ['-c', 'protocol.version=0', 'ls-remote', remote],
    ['clone', remote, 'clone'],
  ]) {
    const refused = await reader.attempt(args);
    expect(refused.code).not.toBe(0);
    expect(refused.stdout).not.toContain(commit);
    expect(refused.stderr).toMatch(WITHHELD);
  }
  for (const service of ['git-upload-pack', 'git-receive-pack'])
    expect(await send(`${remote}/info/refs?service=${service}`)).toMatchObject({ status: 503 });
  await commitFiles(work, { 'a.txt': 'next' });
  const push = await work.attempt(['push', remote, 'main']);
  expect(push.code).not.toBe(0);
  expect(push.stderr).toMatch(WITHHELD);
  expect(scene.events).toContainEqual({
    event: 'objects_lost',
    repo_id: repoId,
    refs: 2,
    lost: 2,
    example: { name: 'refs/heads/main', oid: commit },
    gap: null,
  });
  expect(await withheld(url)).toBe('1');
  expect((await send(`${url}/_health`)).status).toBe(200);

  cpSync(join(backup, 'objects'), join(folder, 'objects'), { recursive: true });
  await vi.waitFor(() => reader(['clone', '--quiet', remote, 'clone']), BOUND);
  expect(await gitIn(join(scene.folder, 'clone'))(['rev-parse', 'HEAD'])).toBe(commit);
  await work(['push', '--quiet', remote, 'main']);
  expect(scene.events).toContainEqual({ event: 'objects_back', repo_id: repoId, refs: 2 });
  expect(await withheld(url)).toBe('0');
});

test('row 10: the folder is gone: it is found at the start, no empty one takes its place, and a copy put there is served', async () => {
  const { remote: former, work, commit, repoId, folder, backup } = await pushed();
  rmSync(folder, { recursive: true });
  const { url } = await scene.start();
  const remote = former.replace(/^http:\/\/[^/]+/, url);
  await vi.waitFor(
    () =>
      expect(scene.events).toContainEqual(
        expect.objectContaining({ event: 'objects_lost', repo_id: repoId, lost: 2 }),
      ),
    BOUND,
  );
  expect((await work.attempt(['fetch', remote, 'main'])).stderr).toMatch(WITHHELD);
  expect((await work.attempt(['push', remote, 'main:other'])).stderr).toMatch(WITHHELD);
  expect(existsSync(folder)).toBe(false);

  // A backup that keeps files alone.
  expect(spawnSync('find', [backup, '-type', 'd', '-empty', '-delete']).status).toBe(0);
  expect(existsSync(join(backup, 'refs'))).toBe(false);
  renameSync(backup, folder);
  await vi.waitFor(async () => expect(await work(['ls-remote', remote, 'main'])).toContain(commit), BOUND);
  await work(['push', '--quiet', remote, 'main:other']);
  expect(await scene.rowsOf(repoId)).toEqual({ refs: 3, pushes: 2, effects: WHOLE.effects + 1 });
});

test('row 10: one pack is gone: what is missing is named, and a push that does not ask first is told as well', async () => {
  const { remote, work, commit, folder } = await pushed();
  const before = new Set(readdirSync(join(folder, 'objects/pack')));
  const next = await commitFiles(work, { 'a.txt': 'next' });
  await work(['push', '--quiet', remote, 'main:next']);
  // A pack that comes and goes between two looks is not missed before the next check; this one has been seen.
  await work(['ls-remote', '--quiet', remote]);
  for (const name of readdirSync(join(folder, 'objects/pack'))) {
    if (!before.has(name)) rmSync(join(folder, 'objects/pack', name));
  }
  const body = Buffer.concat([
    preamble([{ old: commit, new: next, name: 'refs/heads/main' }]),
    await packOf(work, next),
  ]);
  expect(reportOf(await sendPush(remote, body))).toContain(
    `ng refs/heads/main ${/crash\/r\d+/.exec(remote)![0]} is withheld: 1 of its 3 refs names an object that is not on this server's disk, refs/heads/next ${next.slice(0, 12)}.`,
  );
});

test('row 10: a pack is gone that no ref names anything in: whoever needs it finds out, and from then on everybody is told', async () => {
  const { remote, work, repoId, folder, backup } = await pushed();
  const first = readdirSync(join(folder, 'objects/pack'));
  await commitFiles(work, { 'a.txt': 'next' });
  await work(['push', '--quiet', remote, 'main', ':refs/meta/effects/ci']);
  for (const name of first) rmSync(join(folder, 'objects/pack', name));
  const reader = gitIn(scene.folder);
  const cloned = await reader.attempt(['clone', '--quiet', remote, 'clone']);
  expect(cloned.code).not.toBe(0);
  await vi.waitFor(
    () =>
      expect(scene.events).toContainEqual(
        expect.objectContaining({ event: 'objects_lost', repo_id: repoId, refs: 1, lost: 0 }),
      ),
    BOUND,
  );
  expect((await work.attempt(['push', remote, 'main:other'])).stderr).toMatch(
    /is withheld: what its refs reach is not whole on this server's disk, /,
  );
  cpSync(join(backup, 'objects'), join(folder, 'objects'), { recursive: true });
  await vi.waitFor(() => reader(['clone', '--quiet', remote, 'clone']), BOUND);
  await work(['push', '--quiet', remote, 'main:other']);
});

test('a folder that is replaced by a clone, refs and all, shows the refs of the database', async () => {
  const { remote, work, commit, folder } = await pushed();
  const next = await commitFiles(work, { 'a.txt': 'next' });
  rmSync(folder, { recursive: true });
  const reader = gitIn(scene.folder);
  await reader(['init', '--quiet', '--bare', folder]);
  await work(['push', '--quiet', folder, 'main', 'refs/meta/effects/ci', 'main:refs/heads/stray']);
  await vi.waitFor(async () => expect(await reader(['ls-remote', remote, 'main'])).toContain(commit), BOUND);
  expect(await reader(['ls-remote', remote])).not.toContain('stray');
  await work(['push', '--quiet', remote, 'main']);
  expect(await reader(['ls-remote', remote, 'main'])).toContain(next);
});

test('without a backup, a clone has the objects', async () => {
  const { remote, work, commit, repoId, folder } = await pushed();
  const reader = gitIn(scene.folder);
  rmSync(folder, { recursive: true });
  expect((await reader.attempt(['ls-remote', remote])).stderr).toMatch(WITHHELD);
  // As in docs/operating.md.
  await reader(['init', '--quiet', '--bare', folder]);
  const restore = `git -C ${work.folder} pack-objects --quiet --all --stdout </dev/null | git --git-dir ${folder} index-pack --stdin`;
  expect(spawnSync('sh', ['-c', restore]).status).toBe(0);
  await vi.waitFor(async () => expect(await reader(['ls-remote', remote, 'main'])).toContain(commit), BOUND);
  const elsewhere = await makeRepo(join(scene.folder, 'elsewhere'));
  await elsewhere(['fetch', '--quiet', remote, 'refs/heads/*:refs/heads/fetched/*']);
  expect(await elsewhere(['rev-parse', 'fetched/main'])).toBe(commit);
  expect(await scene.rowsOf(repoId)).toEqual(WHOLE);
});
