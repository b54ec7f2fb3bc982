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
import {
  commitFiles,
  defineEffect,
  gitIn,
  makeRepo,
  spawnApp,
  startTcpProxy,
  type Git,
  type SpawnedApp,
} from '@sluice/testkit';
import { sql } from 'kysely';
import { expect, test, vi } from 'vitest';
import { closeCommitGate } from './commit-gate.ts';
import { packOf } from './pack-of.ts';
import { preamble, send } from './raw-push.ts';
import { usePusher } from './use-pusher.ts';

const pusher = usePusher();
const MAIN = join(import.meta.dirname, '../src/main.ts');
const BOUND = { timeout: 20_000, interval: 20 };
let count = 0;

interface Process extends AsyncDisposable {
  url: string;
  app: SpawnedApp;
}

async function startProcess(env: Record<string, string> = {}): Promise<Process> {
  const app = spawnApp({
    file: MAIN,
    env: {
      DATABASE_URL: pusher.database.url,
      SLUICE_DATA_DIR: join(pusher.folder, 'data'),
      SLUICE_LISTEN: '127.0.0.1:0',
      SLUICE_LOG_FORMAT: 'json',
      ...env,
    },
  });
  const [, url] = await app.waitForOutput(/"event":"pusher_started","url":"([^"]+)"/);
  return { url: url!, app, [Symbol.asyncDispose]: () => app[Symbol.asyncDispose]() };
}

async function kill({ app }: Process): Promise<void> {
  app.signal('SIGKILL');
  await app.exited();
}

async function makeWork(): Promise<{ work: Git; commit: string; repoId: string }> {
  count += 1;
  const work = await makeRepo(join(pusher.folder, 'work'));
  const commit = await commitFiles(work, { 'a.txt': `hello ${count}` });
  await defineEffect(work, 'ci', 'on: [refs/heads/*]\nrun: make\n');
  return { work, commit, repoId: `crash/r${count}` };
}

const REFSPECS = ['main', 'refs/meta/effects/ci'];

async function stateOf(repoId: string): Promise<{ refs: number; pushes: number; effects: number }> {
  const { db } = pusher.database;
  const of = async (table: 'ref' | 'op_record' | 'effect_queue'): Promise<number> =>
    (await db.selectFrom(table).select('repo_id').where('repo_id', '=', repoId).execute()).length;
  return { refs: await of('ref'), pushes: await of('op_record'), effects: await of('effect_queue') };
}

const NOTHING = { refs: 0, pushes: 0, effects: 0 };
const WHOLE = { refs: 2, pushes: 1, effects: 1 };

function debris(): string[] {
  const names = readdirSync(join(pusher.folder, 'data', 'repos'), { recursive: true, encoding: 'utf8' });
  return names.filter((name) => /incoming|\.lock$|-new$/.test(name));
}

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
  const { url } = await pusher.start();
  const { work, commit, repoId } = await makeWork();
  const socket = await sendHalf(url, repoId, work, commit);
  socket.destroy();
  await vi.waitFor(() => expect(debris()).toEqual([]), BOUND);
  expect(await stateOf(repoId)).toEqual(NOTHING);
  await work(['push', '--quiet', `${url}/${repoId}.git`, ...REFSPECS]);
  expect(await stateOf(repoId)).toEqual(WHOLE);
});

test('row 2: the pusher dies in the middle of a pack', async () => {
  const { work, commit, repoId } = await makeWork();
  await using first = await startProcess();
  const socket = await sendHalf(first.url, repoId, work, commit);
  await kill(first);
  socket.destroy();
  await using second = await startProcess();
  expect(await stateOf(repoId)).toEqual(NOTHING);
  await work(['push', '--quiet', `${second.url}/${repoId}.git`, ...REFSPECS]);
  expect(await stateOf(repoId)).toEqual(WHOLE);
});

test('row 2: the pusher dies while git stands in pre-receive, and the hook fails closed', async () => {
  const { work, repoId } = await makeWork();
  const bin = join(pusher.folder, 'bin');
  const hooks = join(pusher.folder, 'slow-hooks');
  const go = join(pusher.folder, 'go');
  const reached = join(pusher.folder, 'reached');
  mkdirSync(bin);
  mkdirSync(hooks);
  const git = spawnSync('sh', ['-c', 'command -v git'], { encoding: 'utf8' }).stdout.trim();
  writeFileSync(
    join(bin, 'git'),
    `#!/bin/sh\n[ "$2" = --stateless-rpc ] || exec ${git} "$@"\nexec ${git} -c core.hooksPath=${hooks} "$@"\n`,
    { mode: 0o755 },
  );
  await using first = await startProcess({ PATH: `${bin}:${process.env['PATH'] ?? ''}` });
  const [folder] = readdirSync(join(pusher.folder, 'data', 'hooks'));
  const real = join(pusher.folder, 'data', 'hooks', folder!);
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
  expect(await stateOf(repoId)).toEqual(NOTHING);
  await using second = await startProcess();
  await work(['push', '--quiet', `${second.url}/${repoId}.git`, ...REFSPECS]);
  expect(await stateOf(repoId)).toEqual(WHOLE);
});

test('row 3: the pusher dies when the objects are in place and nothing is committed', async () => {
  const { work, repoId } = await makeWork();
  const { db } = pusher.database;
  await db.insertInto('repo').values({ repo_id: repoId }).execute();
  await using first = await startProcess();
  const lock = await db.startTransaction().execute();
  await lock.selectFrom('repo').select('repo_id').where('repo_id', '=', repoId).forUpdate().execute();
  const pushing = work.attempt(['push', `${first.url}/${repoId}.git`, ...REFSPECS]);
  await untilWaitingForRow();
  await kill(first);
  await lock.rollback().execute();
  expect((await pushing).code).not.toBe(0);
  expect(await stateOf(repoId)).toEqual(NOTHING);
  await using second = await startProcess();
  await work(['push', '--quiet', `${second.url}/${repoId}.git`, ...REFSPECS]);
  expect(await stateOf(repoId)).toEqual(WHOLE);
});

async function untilWaitingForRow(): Promise<void> {
  await vi.waitFor(async () => {
    const { rows } = await sql<{ n: bigint }>`select count(*) as n from pg_stat_activity
      where datname = current_database() and application_name = 'sluice-pusher' and wait_event_type = 'Lock'`.execute(
      pusher.database.db,
    );
    expect(rows[0]!.n).toBeGreaterThan(0n);
  }, BOUND);
}

test('row 4: the database goes away before the commit and stays away: refused, and nothing was changed', async () => {
  const { work, repoId } = await makeWork();
  const { db, url: databaseUrl } = pusher.database;
  await using proxy = await proxyTo(databaseUrl);
  const { url } = await pusher.start({
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
  expect(await stateOf(repoId)).toEqual(NOTHING);
  await proxy.accept();
  await work(['push', '--quiet', `${url}/${repoId}.git`, ...REFSPECS]);
  expect(await stateOf(repoId)).toEqual(WHOLE);
});

async function proxyTo(databaseUrl: string): ReturnType<typeof startTcpProxy> {
  const { hostname, port } = new URL(databaseUrl);
  return await startTcpProxy({ host: hostname, port: Number(port) });
}

test('row 5: the connection is lost in COMMIT, which succeeds: the push is found and reported as accepted', async () => {
  const { work, repoId } = await makeWork();
  const { url: databaseUrl } = pusher.database;
  await using proxy = await proxyTo(databaseUrl);
  await using gate = await closeCommitGate(pusher.database.db);
  const { url } = await pusher.start({ DATABASE_URL: proxy.through(databaseUrl) });
  const pushing = work.attempt(['push', `${url}/${repoId}.git`, ...REFSPECS]);
  await gate.reached();
  proxy.cut();
  await gate.open();
  const { code, stderr } = await pushing;
  expect([code, stderr]).toEqual([0, expect.stringMatching(/remote: push [0-9a-f]{40}/)]);
  expect(await stateOf(repoId)).toEqual(WHOLE);
});

test('row 5: the connection is lost in COMMIT, which fails: the push is made again', async () => {
  const { work, repoId } = await makeWork();
  await using gate = await closeCommitGate(pusher.database.db);
  const { url } = await pusher.start();
  const pushing = work.attempt(['push', `${url}/${repoId}.git`, ...REFSPECS]);
  await gate.reached();
  await gate.terminate();
  await gate.open();
  expect((await pushing).code).toBe(0);
  expect(await stateOf(repoId)).toEqual(WHOLE);
});

test('row 5: the connection is lost in COMMIT and the database stays away: the outcome is called unknown', async () => {
  const { work, repoId } = await makeWork();
  const { url: databaseUrl } = pusher.database;
  await using proxy = await proxyTo(databaseUrl);
  await using gate = await closeCommitGate(pusher.database.db);
  const { url } = await pusher.start({
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
  expect(await stateOf(repoId)).toEqual(WHOLE);
});

test('rows 6 and 7: the pusher dies in COMMIT: the push is there, once, and a retry says so', async () => {
  const { work, commit, repoId } = await makeWork();
  await using gate = await closeCommitGate(pusher.database.db);
  await using first = await startProcess();
  const pushing = work.attempt(['push', `${first.url}/${repoId}.git`, ...REFSPECS]);
  await gate.reached();
  await kill(first);
  await gate.open();
  expect((await pushing).code).not.toBe(0);
  await vi.waitFor(async () => expect(await stateOf(repoId)).toEqual(WHOLE), BOUND);
  await using second = await startProcess();
  const remote = `${second.url}/${repoId}.git`;
  expect(await gitIn(pusher.folder)(['ls-remote', remote, 'refs/heads/main'])).toBe(
    `${commit}\trefs/heads/main`,
  );
  expect((await work.attempt(['push', remote, ...REFSPECS])).stderr).toContain('up-to-date');
  expect(await stateOf(repoId)).toEqual(WHOLE);
});

test('row 7: git dies after the commit and before the report', async () => {
  const { work, repoId } = await makeWork();
  await using gate = await closeCommitGate(pusher.database.db);
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
  await vi.waitFor(async () => expect(await stateOf(repoId)).toEqual(WHOLE), BOUND);
  expect((await work.attempt(['push', remote, ...REFSPECS])).stderr).toContain('up-to-date');
  expect((await send(`${first.url}/_health`)).status).toBe(200);
});

test('row 7: the client leaves after it has sent everything: the push is committed all the same', async () => {
  const { work, commit, repoId } = await makeWork();
  await using gate = await closeCommitGate(pusher.database.db);
  const { url } = await pusher.start();
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
    async () => expect(await stateOf(repoId)).toEqual({ refs: 1, pushes: 1, effects: 0 }),
    BOUND,
  );
  await vi.waitFor(() => expect(debris()).toEqual([]), BOUND);
});

test('row 8: the refs on disk cannot be written: the push is accepted, and the next reader sees it', async () => {
  const { url } = await pusher.start();
  const { work, repoId } = await makeWork();
  const remote = `${url}/${repoId}.git`;
  await work(['push', '--quiet', remote, ...REFSPECS]);
  await untilCached(repoId, 1);
  const obstacle = join(repoFolderOf(repoId), `packed-refs.${process.pid}.sluice-new`);
  mkdirSync(obstacle);
  const next = await commitFiles(work, { 'a.txt': 'next' });
  expect((await work.attempt(['push', remote, 'main'])).code).toBe(0);
  await vi.waitFor(
    () => expect(pusher.events.map(({ event }) => event)).toContain('ref_cache_not_refreshed'),
    BOUND,
  );
  rmdirSync(obstacle);
  expect(await gitIn(pusher.folder)(['ls-remote', remote, 'refs/heads/main'])).toBe(
    `${next}\trefs/heads/main`,
  );
});

/** The only bare repository in the test's folder. */
function repoFolderOf(repoId: string): string {
  const root = join(pusher.folder, 'data', 'repos');
  const found = readdirSync(root, { recursive: true, encoding: 'utf8' }).find(
    (name) => name.endsWith('.git/description') && readFileSync(join(root, name), 'utf8') === `${repoId}\n`,
  );
  return join(root, found!, '..');
}

/** A push answers first and refreshes the refs on disk then. */
async function untilCached(repoId: string, version: number): Promise<void> {
  const folder = repoFolderOf(repoId);
  await vi.waitFor(() => {
    expect(readFileSync(join(folder, 'packed-refs'), 'utf8')).toContain(`sluice=${version}:`);
    expect(readdirSync(folder)).not.toContain('packed-refs.lock');
  }, BOUND);
}

test('row 11: a cache of refs from another history is replaced, whatever version it claims', async () => {
  const { url } = await pusher.start();
  const { work, commit, repoId } = await makeWork();
  const remote = `${url}/${repoId}.git`;
  await work(['push', '--quiet', remote, ...REFSPECS]);
  await untilCached(repoId, 1);
  const packedRefs = join(repoFolderOf(repoId), 'packed-refs');
  writeFileSync(
    packedRefs,
    `# pack-refs with: sorted sluice=1:${'f'.repeat(40)}:refs/heads/main \n${commit} refs/heads/ghost\n`,
  );
  const listed = await gitIn(pusher.folder)(['ls-remote', remote]);
  expect(listed).toContain('refs/heads/main');
  expect(listed).not.toContain('ghost');
});

test('row 14: a lock that a dead process left on the refs is removed', async () => {
  const { url } = await pusher.start();
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
  expect(await gitIn(pusher.folder)(['ls-remote', remote, 'refs/heads/main'])).toContain(next);
});

test('at the start, what killed processes left is removed, and what may be in use is kept', async () => {
  const objects = join(pusher.folder, 'data', 'repos', 'ab', 'x.sha1.git', 'objects');
  const old = new Date(Date.now() - 3 * 60 * 60 * 1000);
  mkdirSync(join(objects, 'tmp_objdir-incoming-old'), { recursive: true });
  utimesSync(join(objects, 'tmp_objdir-incoming-old'), old, old);
  mkdirSync(join(objects, 'tmp_objdir-incoming-young'));
  await pusher.start();
  await vi.waitFor(() => expect(pusher.events).toContainEqual({ event: 'debris_swept', removed: 1 }), BOUND);
  expect(readdirSync(objects)).toEqual(['tmp_objdir-incoming-young']);
});
