import { randomBytes } from 'node:crypto';
import { readdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { commitFiles, gitIn } from '@sluice/testkit';
import { expect, test, vi } from 'vitest';
import { BOUND, REFSPECS, useCrashScene } from './crash-scene.ts';
import { limitFiles, mountSmallDisk } from './small-disk.ts';

const scene = useCrashScene();
const NO_ROOM =
  "remote: the server's disk has no room for this; nothing was changed. Try again when there is";

/** What does not compress. */
const noise = (kilobytes: number): string => randomBytes(kilobytes * 512).toString('hex');

test.each([
  ['a file system that is full', () => mountSmallDisk(scene.dataDir, 600)],
  ['a limit on what git may write', () => limitFiles(scene.folder, 400)],
])(
  'a push that meets %s is refused in plain words and leaves nothing, and fits when there is room',
  async (what, make) => {
    const made = make();
    if (made === null)
      process.stderr.write(`${what}: not allowed to mount one here; git is limited instead\n`);
    using disk = made ?? limitFiles(scene.folder, 400);
    const { url } = await scene.start();
    const { work, repoId } = await scene.makeWork();
    const remote = `${url}/${repoId}.git`;
    await work(['push', '--quiet', remote, ...REFSPECS]);
    const before = await scene.rowsOf(repoId);
    const packs = join(scene.repoFolderOf(repoId), 'objects/pack');
    const packsBefore = readdirSync(packs);

    await commitFiles(work, { 'big.txt': noise(2000) });
    const { code, stderr } = await work.attempt(['push', remote, 'main']);
    expect(code).not.toBe(0);
    expect(stderr).toContain(NO_ROOM);
    expect(await scene.rowsOf(repoId)).toEqual(before);
    expect(scene.debris()).toEqual([]);
    expect(readdirSync(packs)).toEqual(packsBefore);
    expect(scene.events).toContainEqual(
      expect.objectContaining({ event: 'push_not_unpacked', repo_id: repoId }),
    );

    // A small one has room all the while.
    await work(['checkout', '--quiet', '--orphan', 'small']);
    await work(['rm', '--quiet', '--cached', 'big.txt']);
    await work(['commit', '--quiet', '--message=small']);
    await work(['push', '--quiet', remote, 'small']);
    disk.resize(20_000);
    await work(['push', '--quiet', remote, 'main']);
    await gitIn(scene.folder)(['clone', '--quiet', remote, 'clone']);
  },
);

test('refs on disk that find no room: a push that needs none is accepted, and readers are told until there is', async () => {
  const { url } = await scene.start();
  const { work, repoId } = await scene.makeWork();
  const remote = `${url}/${repoId}.git`;
  await work(['push', '--quiet', remote, ...REFSPECS, 'main:gone']);
  await scene.untilCached(repoId, 1);
  // Taking away is the first thing that is done about a failed write.
  const fill = (): void =>
    symlinkSync('/dev/full', join(scene.repoFolderOf(repoId), `packed-refs.${process.pid}.sluice-new`));
  fill();
  await work(['push', '--quiet', remote, ':gone']);
  await vi.waitFor(
    () => expect(scene.events.map(({ event }) => event)).toContain('ref_cache_not_refreshed'),
    BOUND,
  );
  fill();
  const reader = gitIn(scene.folder);
  expect((await reader.attempt(['ls-remote', '--heads', remote])).stderr).toContain(NO_ROOM);
  expect(await reader(['ls-remote', '--heads', remote])).not.toContain('refs/heads/gone');
});
