import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DB } from '@sluice/db';
import { commitFiles, gitIn, type Git } from '@sluice/testkit';
import type { ControlledTransaction, KyselyPlugin } from 'kysely';
import { expect, test, vi } from 'vitest';
import { closeCommitGate } from './commit-gate.ts';
import { BOUND, kill, REFSPECS, useCrashScene, type PusherProcess } from './crash-scene.ts';
import { packOf } from './pack-of.ts';
import { addGarbage, agePacks, expectWhole, has, maintain, packsOf, untilWaiting } from './prune-scene.ts';
import { EMPTY_PACK, preamble, reportOf, sendPush } from './raw-push.ts';

const scene = useCrashScene();
const OLD_DAYS = 30;
/** No maintenance of its own. */
const QUIET = { SLUICE_MAINTENANCE_MS: '0' };

interface Pushed {
  remote: string;
  work: Git;
  repoId: string;
  folder: string;
  /** A blob that no push named, in a pack of its own. */
  garbage: string;
}

/** With packs of this age. */
async function pushed(days = OLD_DAYS): Promise<Pushed> {
  const { url } = await scene.start(QUIET);
  const { work, repoId } = await scene.makeWork();
  const remote = `${url}/${repoId}.git`;
  await work(['push', '--quiet', remote, ...REFSPECS]);
  const folder = scene.repoFolderOf(repoId);
  const [garbage] = await addGarbage(folder, 1);
  agePacks(folder, days);
  return { remote, work, repoId, folder, garbage: garbage! };
}

/** Holds the lock that pushes commit under and that a prune takes objects out under. */
async function lockRepo(repoId: string): Promise<ControlledTransaction<DB>> {
  const lock = await scene.database.db.startTransaction().execute();
  await lock.selectFrom('repo').select('repo_id').where('repo_id', '=', repoId).forUpdate().execute();
  return lock;
}

function hiddenOf(folder: string): string[] {
  return readdirSync(join(folder, 'objects/pack')).filter((name) => name.endsWith('.sluice-hidden'));
}

const PRUNED = { prune: { packs: expect.anything() } };
const PUT_OFF = { prune: { putOff: 'refs moved meanwhile' } };

test('row 13: objects are taken out while a push has its own in place and is not committed: it commits, whole', async () => {
  const { remote, work, repoId, folder, garbage } = await pushed();
  const lock = await lockRepo(repoId);
  const pruning = maintain(scene, repoId);
  await untilWaiting(scene, 1);
  const next = await commitFiles(work, { 'a.txt': 'next' });
  const pushing = work.attempt(['push', remote, 'main']);
  await untilWaiting(scene, 2);
  await lock.rollback().execute();
  expect(await pruning).toMatchObject(PRUNED);
  expect(await pushing).toMatchObject({ code: 0 });
  expect(await has(folder, garbage)).toBe(false);
  await gitIn(scene.folder)(['clone', '--quiet', remote, 'clone']);
  expect(await gitIn(join(scene.folder, 'clone'))(['rev-parse', 'HEAD'])).toBe(next);
  await expectWhole(folder);
});

test('row 13: a push stands in COMMIT while objects are to be taken out: they are not, since refs moved', async () => {
  const { remote, work, repoId, folder, garbage } = await pushed();
  await using gate = await closeCommitGate(scene.database.db);
  await commitFiles(work, { 'a.txt': 'next' });
  const pushing = work.attempt(['push', remote, 'main']);
  await gate.reached();
  const pruning = maintain(scene, repoId);
  await untilWaiting(scene, 2);
  await gate.open();
  expect(await pruning).toMatchObject(PUT_OFF);
  expect((await pushing).code).toBe(0);
  expect(await has(folder, garbage)).toBe(true);
  await expectWhole(folder);
});

test('row 13: a push names an object that is just being taken out: it is refused, and no ref names what is gone', async () => {
  const { remote, repoId, folder, garbage } = await pushed();
  const lock = await lockRepo(repoId);
  const pruning = maintain(scene, repoId);
  await untilWaiting(scene, 1);
  // Git finds the object there, and nothing missing.
  const push = () =>
    sendPush(remote, Buffer.concat([preamble([{ new: garbage, name: 'refs/tags/found' }]), EMPTY_PACK]));
  const pushing = push();
  await untilWaiting(scene, 2);
  await lock.rollback().execute();
  expect(await pruning).toMatchObject(PRUNED);
  expect(reportOf(await pushing)).toContain(
    'ng refs/tags/found objects that nothing named were just taken out of the repository, and this push may need them; push again',
  );
  expect(reportOf(await push())).toContain('ng refs/tags/found');
  expect(await gitIn(scene.folder)(['ls-remote', remote])).not.toContain('refs/tags/found');
  await expectWhole(folder);
});

test('row 13: a push that names an object first keeps it', async () => {
  const { remote, repoId, folder, garbage } = await pushed();
  const lock = await lockRepo(repoId);
  const pushing = sendPush(
    remote,
    Buffer.concat([preamble([{ new: garbage, name: 'refs/tags/found' }]), EMPTY_PACK]),
  );
  await untilWaiting(scene, 1);
  const pruning = maintain(scene, repoId);
  await untilWaiting(scene, 2);
  await lock.rollback().execute();
  expect(reportOf(await pushing)).toContain('ok refs/tags/found');
  expect(await pruning).toMatchObject(PUT_OFF);
  expect(await has(folder, garbage)).toBe(true);
  await expectWhole(folder);
});

test('row 13: a pack that is just being taken out is pushed once more: what is new stays', async () => {
  const { remote, work, repoId, folder } = await pushed();
  const next = await commitFiles(work, { 'a.txt': 'next' });
  const pack = await packOf(work, next);
  // As a push leaves it whose refs were refused last of all.
  await gitIn(folder)(['index-pack', '--stdin', '--fix-thin'], { input: pack });
  agePacks(folder, OLD_DAYS);
  const hidden = Promise.withResolvers<void>();
  const deletion = Promise.withResolvers<void>();
  const holdDeletion: KyselyPlugin = {
    transformQuery: ({ node }) => node,
    async transformResult({ result }) {
      // The last answer that a prune waits for before it deletes.
      if (hiddenOf(folder).length > 0) {
        hidden.resolve();
        await deletion.promise;
      }
      return result;
    },
  };
  const pruning = maintain(scene, repoId, { db: scene.database.db.withPlugin(holdDeletion) });
  await hidden.promise;
  expect(await has(folder, next)).toBe(false);
  const pushing = sendPush(
    remote,
    Buffer.concat([preamble([{ new: next, name: 'refs/heads/again' }]), pack]),
  );
  await untilWaiting(scene, 1);
  deletion.resolve();
  expect(await pruning).toMatchObject(PRUNED);
  expect(reportOf(await pushing)).toContain('ok refs/heads/again');
  expect(await has(folder, next)).toBe(true);
  await expectWhole(folder);
});

/** The next pusher finds everything, maintains the repository, and it is served. */
async function expectRecovery(
  { repoId, folder, work }: Pushed,
  untilQuiet = (): Promise<void> => Promise.resolve(),
): Promise<void> {
  await addGarbage(folder, 30);
  await using next = await scene.startProcess({ SLUICE_MAINTENANCE_MS: '100' });
  await next.app.waitForOutput(/"event":"repo_maintained"/);
  await untilQuiet();
  expect(next.app.output()).not.toContain('maintenance_failed');
  await expectWhole(folder);
  expect(hiddenOf(folder)).toEqual([]);
  const remote = `${next.url}/${repoId}.git`;
  const cloned = await gitIn(scene.folder).attempt(['clone', '--quiet', remote, 'clone']);
  expect(cloned.code, next.app.output()).toBe(0);
  await commitFiles(work, { 'a.txt': 'after' });
  await work(['push', '--quiet', remote, 'main']);
}

test('the pusher dies when the objects to keep are packed anew and none is taken out', async () => {
  const before = await pushed();
  const { repoId, folder, garbage } = before;
  const packs = packsOf(folder);
  const lock = await lockRepo(repoId);
  await using first = await scene.startProcess({ SLUICE_MAINTENANCE_MS: '100' });
  await untilWaiting(scene, 1);
  await kill(first);
  await lock.rollback().execute();
  expect(packsOf(folder)).toEqual(expect.arrayContaining(packs));
  await expectRecovery(before);
  expect(await has(folder, garbage)).toBe(false);
});

test('the pusher dies when packs are hidden and not deleted: the next one shows them again', async () => {
  const before = await pushed();
  const { repoId, folder, garbage } = before;
  const lock = await lockRepo(repoId);
  await using first = await scene.startProcess({ SLUICE_MAINTENANCE_MS: '100' });
  await untilWaiting(scene, 1);
  // Stops it where it changes the stamp: what opens a pipe without a reader waits for one.
  const stamp = join(folder, 'sluice-pruned');
  expect(spawnSync('mkfifo', [stamp]).status).toBe(0);
  await lock.rollback().execute();
  const hiddenPacks = (): string[] => hiddenOf(folder).filter((name) => name.includes('.pack.'));
  await vi.waitFor(() => expect(hiddenPacks()).toHaveLength(2), BOUND);
  expect(await has(folder, garbage)).toBe(false);
  await kill(first);
  rmSync(stamp);
  await expectRecovery(before);
});

/** A `git` ahead of the real one that takes seconds to write a pack. */
function slowRepack(): Record<string, string> {
  const bin = join(scene.folder, 'bin');
  mkdirSync(bin);
  const git = spawnSync('sh', ['-c', 'command -v git'], { encoding: 'utf8' }).stdout.trim();
  writeFileSync(
    join(bin, 'git'),
    `#!/bin/sh\n[ "$3" = repack ] || exec ${git} "$@"\nexec ${git} -c pack.compression=9 "$@" -F\n`,
    { mode: 0o755 },
  );
  return { PATH: `${bin}:${process.env['PATH']}` };
}

/** Text that deflate works hard on. */
function digits(length: number): string {
  return Buffer.from(randomBytes(length).map((byte) => 48 + (byte & 1))).toString('latin1');
}

function childrenOf({ app: { pid } }: PusherProcess): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').match(/\d+/g) ?? [];
  return children.map(Number);
}

/** A process that ended and that nobody has waited for yet does not run. */
function isRunning(pid: number): boolean {
  try {
    return !/^\d+ \(.*\) Z/.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}

test.each([
  ['the pusher and git die', true],
  ['the pusher dies and git goes on', false],
])('%s in the middle of writing a pack: nothing is lost', async (_, isGitKilled) => {
  const before = await pushed(0);
  const { work, remote, folder } = before;
  await commitFiles(work, { 'a.txt': digits(400_000) });
  await work(['push', '--quiet', remote, 'main']);
  await addGarbage(folder, 30);
  const packs = packsOf(folder);
  await using first = await scene.startProcess({ SLUICE_MAINTENANCE_MS: '100', ...slowRepack() });
  const halves = (): string[] =>
    readdirSync(join(folder, 'objects/pack')).filter((name) => name.startsWith('tmp_pack_'));
  await vi.waitFor(() => expect(halves()).toHaveLength(1), BOUND);
  const children = childrenOf(first);
  expect(children).toHaveLength(1);
  await kill(first);
  if (isGitKilled) process.kill(-children[0]!, 'SIGKILL');
  expect(halves()).toHaveLength(1);
  expect(packsOf(folder)).toEqual(packs);
  await expectRecovery(before, () => vi.waitFor(() => expect(isRunning(children[0]!)).toBe(false), BOUND));
});
