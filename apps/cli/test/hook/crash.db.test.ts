import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { commitFiles, defineEffect, startTcpProxy } from '@sluice/testkit';
import { sql } from 'kysely';
import { expect, test, vi } from 'vitest';
import { BOUND, hookIn, useAdopted, type Scene } from './use-adopted.ts';

// Each push starts a program.
vi.setConfig({ testTimeout: 180_000 });
const adopted = useAdopted();

/** A repository with one branch and one definition, adopted. */
async function beginAdopted(...args: string[]): Promise<Scene & { first: string }> {
  const scene = await adopted.begin();
  await defineEffect(scene.work, 'test', 'on: [refs/heads/*]\nrun: make\n');
  const first = await scene.work(['rev-parse', 'HEAD']);
  await scene.work(['push', '--quiet', scene.bare.folder, 'main', 'refs/meta/effects/test']);
  expect((await scene.install(...args)).code).toBe(0);
  return { ...scene, first };
}

async function countsOf(repoId: string): Promise<{ pushes: number; effects: number }> {
  const of = async (table: 'op_record' | 'effect_queue'): Promise<number> =>
    (await adopted.database.db.selectFrom(table).select('repo_id').where('repo_id', '=', repoId).execute())
      .length;
  return { pushes: await of('op_record'), effects: await of('effect_queue') };
}

/** Keeps whoever wants to write the refs on disk waiting, as long as this process lives. */
function lockRefs(folder: string): () => void {
  const lock = join(folder, 'packed-refs.lock');
  writeFileSync(lock, `${process.pid} ${'0'.repeat(8)} ${hostname()}\n`, { flag: 'wx' });
  return () => rmSync(lock);
}

/** Kills what runs as proc-receive without a warning. */
async function killHook({ bare }: Scene): Promise<void> {
  process.kill(await hookIn(bare), 'SIGKILL');
}

test('the database is away: refused with the reason, and nothing was changed', async () => {
  const url = new URL(adopted.database.url);
  await using proxy = await startTcpProxy({ host: url.hostname, port: Number(url.port) });
  const scene = await adopted.begin();
  const { repoId, bare, work, push, known, onDisk } = scene;
  await work(['push', '--quiet', bare.folder, 'main']);
  const installed = await adopted.cli(['hook', 'install', bare.folder, '--repo', repoId], {
    DATABASE_URL: proxy.through(adopted.database.url),
    SLUICE_DATABASE_WAIT_MS: '500',
  });
  expect(installed).toMatchObject({ code: 0, stderr: '' });
  const before = await known();
  await commitFiles(work, { 'a.txt': 'next' });
  await proxy.refuse();
  proxy.cut();
  const refused = await push(['origin', 'main']);
  expect(refused.code).toBe(1);
  expect(refused.stderr).toContain(
    '(the database is not available; nothing was changed, try again in a moment)',
  );
  expect(await onDisk()).toEqual(before);
  await proxy.accept();
  expect(await known()).toEqual(before);
  expect((await push(['origin', 'main'])).code).toBe(0);
  expect(await onDisk()).toEqual(await known());
  proxy.cut();
});

test('of two pushes to one ref one is accepted, and the other hears that it came too late', async () => {
  const { repoId, bare, work, push, known, onDisk } = await beginAdopted();
  const one = await commitFiles(work, { 'a.txt': 'one' });
  await work(['branch', 'two', 'HEAD~1']);
  await work(['checkout', '--quiet', 'two']);
  const two = await commitFiles(work, { 'b.txt': 'two' });
  const { db } = adopted.database;
  // Both are let as far as the repository's row before either may go on.
  const holder = await db.startTransaction().execute();
  await holder.selectFrom('repo').select('repo_id').where('repo_id', '=', repoId).forUpdate().execute();
  const pushes = [push(['origin', `${one}:refs/heads/main`]), push(['origin', `${two}:refs/heads/main`])];
  await vi.waitFor(async () => {
    const { rows } = await sql`
      select pid from pg_stat_activity
      where datname = current_database() and application_name = 'sluice-hook' and wait_event_type = 'Lock'`.execute(
      db,
    );
    expect(rows).toHaveLength(2);
  }, BOUND);
  await holder.rollback().execute();
  const results = await Promise.all(pushes);
  expect(results.map(({ code }) => code).toSorted((a, b) => a - b)).toEqual([0, 1]);
  const loser = results.find(({ code }) => code === 1);
  expect(loser?.stderr).toMatch(/stale: expected [0-9a-f]{12}, but it is [0-9a-f]{12}; fetch and try again/);
  const winner = results[0]!.code === 0 ? one : two;
  expect(await known()).toMatchObject({ 'refs/heads/main': winner });
  expect(await onDisk()).toEqual(await known());
  expect(await countsOf(repoId)).toEqual({ pushes: 2, effects: 1 });
  expect((await bare(['fsck', '--full'])).trim()).not.toContain('missing');
});

test('killed before the commit, the hook leaves nothing behind, and the next push goes through', async () => {
  const scene = await beginAdopted();
  const { repoId, work, push, known, onDisk } = scene;
  const before = await known();
  await commitFiles(work, { 'a.txt': 'next' });
  const { db } = adopted.database;
  const holder = await db.startTransaction().execute();
  await holder.selectFrom('repo').select('repo_id').where('repo_id', '=', repoId).forUpdate().execute();
  const pushing = push(['origin', 'main']);
  await vi.waitFor(async () => {
    const { rows } = await sql`select pid from pg_stat_activity
      where datname = current_database() and application_name = 'sluice-hook' and wait_event_type = 'Lock'`.execute(
      db,
    );
    expect(rows).toHaveLength(1);
  }, BOUND);
  await killHook(scene);
  const refused = await pushing;
  expect(refused.code).toBe(1);
  expect(refused.stderr).toContain('fail to run proc-receive hook');
  await holder.rollback().execute();
  await untilNoHookIsConnected();
  expect(await known()).toEqual(before);
  expect(await onDisk()).toEqual(before);
  expect(await countsOf(repoId)).toEqual({ pushes: 1, effects: 0 });
  expect((await push(['origin', 'main'])).code).toBe(0);
  expect(await countsOf(repoId)).toEqual({ pushes: 2, effects: 1 });
});

async function untilNoHookIsConnected(): Promise<void> {
  await vi.waitFor(async () => {
    const { rows } = await sql`select pid from pg_stat_activity
      where datname = current_database() and application_name = 'sluice-hook'`.execute(adopted.database.db);
    expect(rows).toEqual([]);
  }, BOUND);
}

/** Kills the hook when the push is committed and its refs are not on disk. */
async function killAfterCommit(scene: Scene): Promise<void> {
  const unlock = lockRefs(scene.bare.folder);
  const { pushes } = await countsOf(scene.repoId);
  const pushing = scene.push(['origin', 'main']);
  await vi.waitFor(async () => expect((await countsOf(scene.repoId)).pushes).toBe(pushes + 1), BOUND);
  await killHook(scene);
  expect((await pushing).stderr).toContain('fail to run proc-receive hook');
  unlock();
  await untilNoHookIsConnected();
}

test('killed after the commit, the push counts, once: the next push brings the refs on disk up to date', async () => {
  const scene = await beginAdopted();
  const { repoId, work, push, known, onDisk, first } = scene;
  const next = await commitFiles(work, { 'a.txt': 'next' });
  await killAfterCommit(scene);
  expect(await known()).toMatchObject({ 'refs/heads/main': next });
  expect(await onDisk()).toMatchObject({ 'refs/heads/main': first });
  // What it was shown was old: this one is refused, and from now on everybody is shown what is so.
  const again = await push(['origin', 'main']);
  expect(again.stderr).toContain('fetch and try again');
  expect(await onDisk()).toEqual(await known());
  expect((await push(['origin', 'main'])).stderr).toContain('Everything up-to-date');
  expect(await countsOf(repoId)).toEqual({ pushes: 2, effects: 1 });
});

test('killed after the commit: sluice hook sync brings the refs on disk up to date, and says which', async () => {
  const scene = await beginAdopted();
  const { bare, work, onDisk, known, first } = scene;
  const next = await commitFiles(work, { 'a.txt': 'next' });
  await killAfterCommit(scene);
  const synced = await adopted.cli(['hook', 'sync', bare.folder]);
  expect(synced).toMatchObject({ code: 0, stderr: '' });
  expect(synced.stdout).toBe(
    `refs/heads/main: ${first} became ${next}\n${scene.repoId}: 2 refs on disk, as in the database\n`,
  );
  expect(await onDisk()).toEqual(await known());
});

test('a ref that was written behind the back of Sluice is put right by the next push, and the log keeps it', async () => {
  const { bare, work, push, onDisk, known, first, events } = await beginAdopted();
  const next = await commitFiles(work, { 'a.txt': 'next' });
  expect((await push(['origin', 'main'])).code).toBe(0);
  await bare(['update-ref', 'refs/heads/main', first]);
  await bare(['update-ref', 'refs/heads/ghost', first]);
  await bare(['symbolic-ref', 'refs/heads/alias', 'refs/heads/main']);
  expect((await push(['origin', 'main:other'])).code).toBe(0);
  expect(await onDisk()).toEqual(await known());
  expect(await known()).toMatchObject({ 'refs/heads/main': next, 'refs/heads/other': next });
  const displaced = events().filter(({ event }) => event === 'ref_displaced');
  expect(displaced.map(({ ref, value }) => `${String(ref)} ${String(value)}`).toSorted()).toEqual([
    'refs/heads/alias ref: refs/heads/main',
    `refs/heads/ghost ${first}`,
    `refs/heads/main ${first}`,
  ]);
  expect(existsSync(join(bare.folder, 'refs/heads/ghost'))).toBe(false);
});

test('gc of the server does no harm, and refs that it packed count like those that Sluice wrote', async () => {
  const { bare, work, push, onDisk, known } = await beginAdopted();
  await bare(['gc', '--quiet', '--prune=now']);
  await commitFiles(work, { 'a.txt': 'next' });
  expect((await push(['origin', 'main'])).code).toBe(0);
  await bare(['gc', '--quiet', '--prune=now']);
  expect(await onDisk()).toEqual(await known());
  expect((await push(['origin', ':refs/meta/effects/test'])).code).toBe(0);
  expect(await onDisk()).toEqual(await known());
  expect(Object.keys(await known())).toEqual(['refs/heads/main']);
});
