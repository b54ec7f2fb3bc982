import { spawnSync } from 'node:child_process';
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { commitFiles, gitIn, startTcpProxy, type Git } from '@sluice/testkit';
import { sql } from 'kysely';
import { expect, test, vi } from 'vitest';
import { closeCommitGate } from './commit-gate.ts';
import { BOUND, kill, NOTHING, REFSPECS, useCrashScene, WHOLE } from './crash-scene.ts';
import { packOf } from './pack-of.ts';
import { preamble, send } from './raw-push.ts';

const scene = useCrashScene();
const { makeWork, startProcess, rowsOf, debris, repoFolderOf, untilCached } = scene;

/** Sends a push whose pack stops half way, and waits until git has begun to unpack it. */
async function sendHalf(url: string, repoId: string, work: Git, commit: string): Promise<Socket> {
  const pack = await packOf(work, commit);
  const body = Buffer.concat([preamble([{ new: commit, name: 'refs/heads/main' }]), pack]);
  const socket = connect(Number(new URL(url).port), '127.0.0.1');
  socket.on('error', () => {});
  socket.write(
    `POST /${repoId}.git/git-receive-pack HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-git-receive-pack-request\r\nContent-Length: ${body.length}\r\n\r\n`,
  );
  socket.write(body.subarray(0, -30));
  await vi.waitFor(() => expect(debris().length).toBeGreaterThan(0), BOUND);
  return socket;
}

test('row 1: the client leaves in the middle of its pack', async () => {
  const { url } = await scene.start();
  const { work, commit, repoId } = await makeWork();
  const socket = await sendHalf(url, repoId, work, commit);
  socket.destroy();
  await vi.waitFor(() => expect(debris()).toEqual([]), BOUND);
  expect(await rowsOf(repoId)).toEqual(NOTHING);
  await work(['push', '--quiet', `${url}/${repoId}.git`, ...REFSPECS]);
  expect(await rowsOf(repoId)).toEqual(WHOLE);
});

test('row 2: the pusher dies in the middle of a pack', async () => {
  const { work, commit, repoId } = await makeWork();
  await using first = await startProcess();
  const socket = await sendHalf(first.url, repoId, work, commit);
  await kill(first);
  socket.destroy();
  await using second = await startProcess();
  expect(await rowsOf(repoId)).toEqual(NOTHING);
  await work(['push', '--quiet', `${second.url}/${repoId}.git`, ...REFSPECS]);
  expect(await rowsOf(repoId)).toEqual(WHOLE);
});

test('row 2: the pusher dies while git stands in pre-receive, and the hook fails closed', async () => {
  const { work, repoId } = await makeWork();
  const bin = join(scene.folder, 'bin');
  const hooks = join(scene.folder, 'slow-hooks');
  const go = join(scene.folder, 'go');
  const reached = join(scene.folder, 'reached');
  mkdirSync(bin);
  mkdirSync(hooks);
  const git = spawnSync('sh', ['-c', 'command -v git'], { encoding: 'utf8' }).stdout.trim();
  writeFileSync(
    join(bin, 'git'),
    `#!/bin/sh\n[ "$2" = --stateless-rpc ] || exec ${git} "$@"\nexec ${git} -c core.hooksPath=${hooks} "$@"\n`,
    { mode: 0o755 },
  );
  await using first = await startProcess({ PATH: `${bin}:${process.env['PATH'] ?? ''}` });
  const [folder] = readdirSync(join(scene.dataDir, 'hooks'));
  const real = join(scene.dataDir, 'hooks', folder!);
  symlinkSync(join(real, 'proc-receive'), join(hooks, 'proc-receive'));
  writeFileSync(
    join(hooks, 'pre-receive'),
    `#!/bin/sh\n: > ${reached}\nuntil [ -e ${go} ]; do sleep 0.05; done\nexec ${real}/pre-receive\n`,
    { mode: 0o755 },
  );
  const pushing = work.attempt(['push', `${first.url}/${repoId}.git`, ...REFSPECS]);
  await vi.waitFor(() => readFileSync(reached), BOUND);
  await kill(first);
  writeFileSync(go, '');
  expect((await pushing).code).not.toBe(0);
  expect(await rowsOf(repoId)).toEqual(NOTHING);
  await using second = await startProcess();
  await work(['push', '--quiet', `${second.url}/${repoId}.git`, ...REFSPECS]);
  expect(await rowsOf(repoId)).toEqual(WHOLE);
});

test('row 3: the pusher dies when the objects are in place and nothing is committed', async () => {
  const { work, repoId } = await makeWork();
  const { db } = scene.database;
  await db.insertInto('repo').values({ repo_id: repoId }).execute();
  await using first = await startProcess();
  const lock = await db.startTransaction().execute();
  await lock.selectFrom('repo').select('repo_id').where('repo_id', '=', repoId).forUpdate().execute();
  const pushing = work.attempt(['push', `${first.url}/${repoId}.git`, ...REFSPECS]);
  await untilWaitingForRow();
  await kill(first);
  await lock.rollback().execute();
  expect((await pushing).code).not.toBe(0);
  expect(await rowsOf(repoId)).toEqual(NOTHING);
  await using second = await startProcess();
  await work(['push', '--quiet', `${second.url}/${repoId}.git`, ...REFSPECS]);
  expect(await rowsOf(repoId)).toEqual(WHOLE);
});

async function untilWaitingForRow(): Promise<void> {
  await vi.waitFor(async () => {
    const { rows } = await sql<{ n: bigint }>`select count(*) as n from pg_stat_activity
      where datname = current_database() and application_name = 'sluice-pusher'
        and wait_event_type = 'Lock' and wait_event <> 'advisory'`.execute(scene.database.db);
    expect(rows[0]!.n).toBeGreaterThan(0n);
  }, BOUND);
}

test('row 4: the database goes away before the commit and stays away: refused, and nothing was changed', async () => {
  const { work, repoId } = await makeWork();
  const { db, url: databaseUrl } = scene.database;
  await using proxy = await proxyTo(databaseUrl);
  const { url } = await scene.start({
    DATABASE_URL: proxy.through(databaseUrl),
    SLUICE_DATABASE_WAIT_MS: '1000',
  });
  await db.insertInto('repo').values({ repo_id: repoId }).execute();
  const lock = await db.startTransaction().execute();
  await lock.selectFrom('repo').select('repo_id').where('repo_id', '=', repoId).forUpdate().execute();
  const pushing = work.attempt(['push', `${url}/${repoId}.git`, ...REFSPECS]);
  await untilWaitingForRow();
  await proxy.refuse();
  proxy.cut();
  const { code, stderr } = await pushing;
  expect(code).toBe(1);
  expect(stderr).toContain('the database is not available; nothing was changed, try again in a moment');
  const down = await send(`${url}/${repoId}.git/info/refs?service=git-receive-pack`);
  expect(down).toMatchObject({ status: 503, headers: { 'retry-after': '5' } });
  expect((await send(`${url}/_health`)).status).toBe(503);
  await lock.rollback().execute();
  expect(await rowsOf(repoId)).toEqual(NOTHING);
  await proxy.accept();
  await work(['push', '--quiet', `${url}/${repoId}.git`, ...REFSPECS]);
  expect(await rowsOf(repoId)).toEqual(WHOLE);
});

async function proxyTo(databaseUrl: string): ReturnType<typeof startTcpProxy> {
  const { hostname, port } = new URL(databaseUrl);
  return await startTcpProxy({ host: hostname, port: Number(port) });
}

test('row 5: the connection is lost in COMMIT, which succeeds: the push is found and reported as accepted', async () => {
  const { work, repoId } = await makeWork();
  const { url: databaseUrl } = scene.database;
  await using proxy = await proxyTo(databaseUrl);
  await using gate = await closeCommitGate(scene.database.db);
  const { url } = await scene.start({ DATABASE_URL: proxy.through(databaseUrl) });
  const pushing = work.attempt(['push', `${url}/${repoId}.git`, ...REFSPECS]);
  await gate.reached();
  proxy.cut();
  await gate.open();
  const { code, stderr } = await pushing;
  expect([code, stderr]).toEqual([0, expect.stringMatching(/remote: push [0-9a-f]{40}/)]);
  expect(await rowsOf(repoId)).toEqual(WHOLE);
});

test('row 5: the same while COMMIT goes on: whoever looks for a first push waits for it', async () => {
  const { work, repoId } = await makeWork();
  const { url: databaseUrl } = scene.database;
  await using proxy = await proxyTo(databaseUrl);
  await using gate = await closeCommitGate(scene.database.db);
  const { url } = await scene.start({ DATABASE_URL: proxy.through(databaseUrl) });
  const pushing = work.attempt(['push', `${url}/${repoId}.git`, ...REFSPECS]);
  await gate.reached();
  proxy.cut();
  // For the row, which the session in COMMIT has made and which nobody else sees yet.
  await untilWaitingForRow();
  await gate.open();
  const { code, stderr } = await pushing;
  expect([code, stderr]).toEqual([0, expect.stringMatching(/remote: push [0-9a-f]{40}/)]);
  expect(await rowsOf(repoId)).toEqual(WHOLE);
});

test('row 5: the connection is lost in COMMIT, which fails: the push is made again', async () => {
  const { work, repoId } = await makeWork();
  await using gate = await closeCommitGate(scene.database.db);
  const { url } = await scene.start();
  const pushing = work.attempt(['push', `${url}/${repoId}.git`, ...REFSPECS]);
  await gate.reached();
  await gate.terminate();
  await gate.open();
  expect((await pushing).code).toBe(0);
  expect(await rowsOf(repoId)).toEqual(WHOLE);
});

test('row 5: the connection is lost in COMMIT and the database stays away: the outcome is called unknown', async () => {
  const { work, repoId } = await makeWork();
  const { url: databaseUrl } = scene.database;
  await using proxy = await proxyTo(databaseUrl);
  await using gate = await closeCommitGate(scene.database.db);
  const { url } = await scene.start({
    DATABASE_URL: proxy.through(databaseUrl),
    SLUICE_DATABASE_WAIT_MS: '500',
  });
  const pushing = work.attempt(['push', `${url}/${repoId}.git`, ...REFSPECS]);
  await gate.reached();
  await proxy.refuse();
  proxy.cut();
  expect((await pushing).stderr).toContain('the outcome is not known; push again');
  await gate.open();
  await proxy.accept();
  const again = await work.attempt(['push', `${url}/${repoId}.git`, ...REFSPECS]);
  expect([again.code, again.stderr]).toEqual([0, expect.stringContaining('up-to-date')]);
  expect(await rowsOf(repoId)).toEqual(WHOLE);
});

test('rows 6 and 7: the pusher dies in COMMIT: the push is there, once, and a retry says so', async () => {
  const { work, commit, repoId } = await makeWork();
  await using gate = await closeCommitGate(scene.database.db);
  await using first = await startProcess();
  const pushing = work.attempt(['push', `${first.url}/${repoId}.git`, ...REFSPECS]);
  await gate.reached();
  await kill(first);
  await gate.open();
  expect((await pushing).code).not.toBe(0);
  await vi.waitFor(async () => expect(await rowsOf(repoId)).toEqual(WHOLE), BOUND);
  await using second = await startProcess();
  const remote = `${second.url}/${repoId}.git`;
  expect(await gitIn(scene.folder)(['ls-remote', remote, 'refs/heads/main'])).toBe(
    `${commit}\trefs/heads/main`,
  );
  expect((await work.attempt(['push', remote, ...REFSPECS])).stderr).toContain('up-to-date');
  expect(await rowsOf(repoId)).toEqual(WHOLE);
});

test('row 7: git dies after the commit and before the report', async () => {
  const { work, repoId } = await makeWork();
  await using gate = await closeCommitGate(scene.database.db);
  await using first = await startProcess();
  const remote = `${first.url}/${repoId}.git`;
  const pushing = work.attempt(['push', remote, ...REFSPECS]);
  await gate.reached();
  const { pid } = first.app;
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').match(/\d+/g) ?? [];
  expect(children).not.toEqual([]);
  for (const child of children) process.kill(-Number(child), 'SIGKILL');
  await gate.open();
  expect((await pushing).code).not.toBe(0);
  await vi.waitFor(async () => expect(await rowsOf(repoId)).toEqual(WHOLE), BOUND);
  expect((await work.attempt(['push', remote, ...REFSPECS])).stderr).toContain('up-to-date');
  expect((await send(`${first.url}/_health`)).status).toBe(200);
});

test('row 7: the client leaves after it has sent everything: the push is committed all the same', async () => {
  const { work, commit, repoId } = await makeWork();
  await using gate = await closeCommitGate(scene.database.db);
  const { url } = await scene.start();
  const pack = await packOf(work, commit);
  const body = Buffer.concat([preamble([{ new: commit, name: 'refs/heads/main' }]), pack]);
  const socket = connect(Number(new URL(url).port), '127.0.0.1');
  socket.on('error', () => {});
  socket.write(
    `POST /${repoId}.git/git-receive-pack HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-git-receive-pack-request\r\nContent-Length: ${body.length}\r\n\r\n`,
  );
  socket.write(body);
  await gate.reached();
  socket.destroy();
  await gate.open();
  await vi.waitFor(
    async () => expect(await rowsOf(repoId)).toEqual({ refs: 1, pushes: 1, effects: 0 }),
    BOUND,
  );
  await vi.waitFor(() => expect(debris()).toEqual([]), BOUND);
});

test('row 8: the refs on disk cannot be written: the push is accepted, and the next reader sees it', async () => {
  const { url } = await scene.start();
  const { work, repoId } = await makeWork();
  const remote = `${url}/${repoId}.git`;
  await work(['push', '--quiet', remote, ...REFSPECS]);
  await untilCached(repoId, 1);
  const obstacle = join(repoFolderOf(repoId), `packed-refs.${process.pid}.sluice-new`);
  mkdirSync(obstacle);
  const next = await commitFiles(work, { 'a.txt': 'next' });
  expect((await work.attempt(['push', remote, 'main'])).code).toBe(0);
  await vi.waitFor(
    () => expect(scene.events.map(({ event }) => event)).toContain('ref_cache_not_refreshed'),
    BOUND,
  );
  rmdirSync(obstacle);
  expect(await gitIn(scene.folder)(['ls-remote', remote, 'refs/heads/main'])).toBe(
    `${next}\trefs/heads/main`,
  );
});

test('row 11: a cache of refs from another history is replaced, whatever version it claims', async () => {
  const { url } = await scene.start();
  const { work, commit, repoId } = await makeWork();
  const remote = `${url}/${repoId}.git`;
  await work(['push', '--quiet', remote, ...REFSPECS]);
  await untilCached(repoId, 1);
  const reader = gitIn(scene.folder);
  await reader(['ls-remote', remote]);
  // Refs for most readers, and those for who asks for results as well.
  for (const gitDir of [repoFolderOf(repoId), join(repoFolderOf(repoId), 'with-results')]) {
    const packedRefs = join(gitDir, 'packed-refs');
    const [header = ''] = readFileSync(packedRefs, 'utf8').split('\n');
    const other = header.replace(/sluice=1:[0-9a-f]{40}/, `sluice=1:${'f'.repeat(40)}`);
    expect(other).not.toBe(header);
    writeFileSync(packedRefs, `${other}\n${commit} refs/heads/ghost\n`);
  }
  for (const listed of [
    await reader(['ls-remote', '--heads', remote]),
    await reader(['ls-remote', remote]),
  ]) {
    expect(listed).toContain('refs/heads/main');
    expect(listed).not.toContain('ghost');
  }
});

test('row 14: a lock that a dead process left on the refs is removed', async () => {
  const { url } = await scene.start();
  const { work, repoId } = await makeWork();
  const remote = `${url}/${repoId}.git`;
  await work(['push', '--quiet', remote, ...REFSPECS]);
  const lock = join(repoFolderOf(repoId), 'packed-refs.lock');
  const old = new Date(Date.UTC(2020, 0, 1));
  await untilCached(repoId, 1);
  writeFileSync(lock, '');
  utimesSync(lock, old, old);
  const next = await commitFiles(work, { 'a.txt': 'next' });
  await work(['push', '--quiet', remote, 'main']);
  expect(await gitIn(scene.folder)(['ls-remote', remote, 'refs/heads/main'])).toContain(next);
});

test('at the start, what killed processes left is removed, and what may be in use is kept', async () => {
  const objects = join(scene.dataDir, 'repos', 'ab', 'x.sha1.git', 'objects');
  const old = new Date(Date.now() - 3 * 60 * 60 * 1000);
  mkdirSync(join(objects, 'tmp_objdir-incoming-old'), { recursive: true });
  utimesSync(join(objects, 'tmp_objdir-incoming-old'), old, old);
  mkdirSync(join(objects, 'tmp_objdir-incoming-young'));
  await scene.start();
  await vi.waitFor(() => expect(scene.events).toContainEqual({ event: 'debris_swept', removed: 1 }), BOUND);
  expect(readdirSync(objects)).toEqual(['tmp_objdir-incoming-young']);
});
