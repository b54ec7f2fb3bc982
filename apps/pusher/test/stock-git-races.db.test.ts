import { mkdirSync, readdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { commitFiles, defineEffect, gitIn, makeRepo, type Git } from '@sluice/testkit';
import { repoFolder, requestOf } from '@sluice/ref-store';
import { sql } from 'kysely';
import { expect, test, vi } from 'vitest';
import { packOf } from './pack-of.ts';
import { EMPTY_PACK, preamble, sendPush } from './raw-push.ts';
import { usePusher } from './use-pusher.ts';

const pusher = usePusher();
const BOUND = { timeout: 20_000, interval: 20 };
let count = 0;

async function begin(
  env: Record<string, string> = {},
): Promise<{ remote: string; repoId: string; work: Git }> {
  const { url } = await pusher.start(env);
  count += 1;
  const repoId = `race/r${count}`;
  return { repoId, remote: `${url}/${repoId}.git`, work: await makeRepo(`${pusher.folder}/work`) };
}

async function refsOf(repoId: string): Promise<Record<string, string>> {
  const rows = await pusher.database.db
    .selectFrom('ref')
    .select(['name', 'oid'])
    .where('repo_id', '=', repoId)
    .execute();
  return Object.fromEntries(rows.map(({ name, oid }) => [name, oid]));
}

async function countOf(table: 'op_record' | 'effect_queue', repoId: string): Promise<number> {
  const rows = await pusher.database.db
    .selectFrom(table)
    .select('repo_id')
    .where('repo_id', '=', repoId)
    .execute();
  return rows.length;
}

test.each([{ options: [] }, { options: ['--atomic'] }])(
  'a branch that moves while a push of it and a tag is under way: neither is changed (git push $options)',
  async ({ options }) => {
    const { remote, work, repoId } = await begin();
    const first = await commitFiles(work, { 'a.txt': 'one' });
    await work(['push', '--quiet', remote, 'main']);
    const rival = await commitFiles(work, { 'a.txt': 'two' });
    await work(['push', '--quiet', remote, 'main:rival']);
    await commitFiles(work, { 'a.txt': 'three' });
    await work(['tag', 'v1']);
    // git runs it when it has read what the server has, and before it sends anything.
    const hook = join(work.folder, '.git/hooks/pre-push');
    mkdirSync(join(work.folder, '.git/hooks'), { recursive: true });
    writeFileSync(
      hook,
      `#!/bin/sh\n[ -e moved ] && exit 0\ntouch moved\nexec git push --quiet ${remote} ${rival}:refs/heads/main\n`,
      { mode: 0o755 },
    );
    const pushes = await countOf('op_record', repoId);
    const late = await work.attempt(['push', ...options, remote, 'main', 'v1']);
    expect(late.code).not.toBe(0);
    expect(late.stderr).toMatch(/main -> main \(stale: expected [0-9a-f]{12}, but it is [0-9a-f]{12}/);
    expect(late.stderr).toMatch(/v1 -> v1 \(not applied/);
    expect(await refsOf(repoId)).toEqual({ 'refs/heads/main': rival, 'refs/heads/rival': rival });
    expect(first).not.toBe(rival);
    expect(await countOf('op_record', repoId)).toBe(pushes + 1);
    // After a fetch it is an ordinary push.
    await work(['push', '--quiet', ...options, remote, 'main', 'v1']);
    expect(Object.keys(await refsOf(repoId))).toContain('refs/tags/v1');
  },
);

test('the same push from two clients at once is one push with one effect', async () => {
  const { remote, work, repoId } = await begin();
  await defineEffect(work, 'ci', 'on: [refs/heads/*]\nrun: make\n');
  const base = await commitFiles(work, { 'a.txt': 'one' });
  await work(['push', '--quiet', remote, 'main', 'refs/meta/effects/ci']);
  const next = await commitFiles(work, { 'a.txt': 'two' });
  const body = Buffer.concat([
    preamble([{ old: base, new: next, name: 'refs/heads/main' }]),
    await packOf(work, next),
  ]);
  const answers = await Promise.all([sendPush(remote, body), sendPush(remote, body)]);
  expect(answers.some(({ text }) => text.includes('ok refs/heads/main'))).toBe(true);
  expect(await refsOf(repoId)).toMatchObject({ 'refs/heads/main': next });
  expect(await countOf('op_record', repoId)).toBe(2);
  expect(await countOf('effect_queue', repoId)).toBe(2);
  expect((await work.attempt(['push', remote, 'main'])).stderr).toContain('up-to-date');
});

test('names that differ by case alone are two refs with values of their own', async () => {
  const { remote, work } = await begin();
  const upper = await commitFiles(work, { 'a.txt': 'upper' });
  const lower = await commitFiles(work, { 'a.txt': 'lower' });
  await work(['push', '--quiet', remote, `${upper}:refs/heads/Feature/a`, `${lower}:refs/heads/feature/a`]);
  const listed = async () => {
    const lines = (await gitIn(pusher.folder)(['ls-remote', '--refs', remote])).split('\n');
    return Object.fromEntries(lines.map((line) => line.split('\t').toReversed()));
  };
  expect(await listed()).toEqual({ 'refs/heads/Feature/a': upper, 'refs/heads/feature/a': lower });
  const newer = await commitFiles(work, { 'a.txt': 'newer' });
  await work(['push', '--quiet', '--force', remote, `${newer}:refs/heads/Feature/a`]);
  expect(await listed()).toEqual({ 'refs/heads/Feature/a': newer, 'refs/heads/feature/a': lower });
  await work(['push', '--quiet', remote, ':refs/heads/Feature/a']);
  expect(await listed()).toEqual({ 'refs/heads/feature/a': lower });
});

test('repositories whose names differ by case alone are two', async () => {
  const { remote, work, repoId } = await begin();
  const other = remote.replace('/race/', '/Race/');
  const lower = await commitFiles(work, { 'a.txt': 'lower' });
  await work(['push', '--quiet', remote, 'main']);
  const upper = await commitFiles(work, { 'a.txt': 'upper' });
  await work(['push', '--quiet', other, 'main']);
  expect(await refsOf(repoId)).toEqual({ 'refs/heads/main': lower });
  expect(await refsOf(repoId.replace('race', 'Race'))).toEqual({ 'refs/heads/main': upper });
  for (const [from, commit] of [
    [remote, lower],
    [other, upper],
  ] as const)
    expect(await gitIn(pusher.folder)(['ls-remote', '--refs', from])).toBe(`${commit}\trefs/heads/main`);
  // Nor are their objects in one folder.
  const reader = await makeRepo(`${pusher.folder}/reader`);
  await reader(['fetch', '--quiet', other, upper]);
  const elsewhere = await makeRepo(`${pusher.folder}/elsewhere`);
  expect((await elsewhere.attempt(['fetch', '--quiet', remote, upper])).code).not.toBe(0);
});

test('push options are recorded as git has them; too many and too long ones are refused with their number', async () => {
  const { remote, work, repoId } = await begin();
  await commitFiles(work, { 'a.txt': 'one' });
  const options = ['k=v w', 'x'.repeat(4096), '', 'é '];
  await work(['push', '--quiet', ...options.flatMap((option) => ['-o', option]), remote, 'main']);
  const { body } = await pusher.database.db
    .selectFrom('op_record')
    .select('body')
    .where('repo_id', '=', repoId)
    .executeTakeFirstOrThrow();
  expect(requestOf(body!)).toEqual({ noEffects: null, pushOptions: options });
  const many = Array.from({ length: 200 }, (_, n) => ['-o', `n${n}`]).flat();
  for (const [refusedOnes, reason] of [
    [many, 'expected at most 64 push options, got more'],
    [['-o', 'x'.repeat(10_000)], 'expected push options of at most 4096 bytes, got one of 10000'],
    [['-o', 'a\u001b[2Jb'], 'expected push options in UTF-8, each on one line'],
  ] as const) {
    const refused = await work.attempt(['push', ...refusedOnes, remote, 'main:other']);
    expect([refused.code === 0, refused.stderr]).toEqual([false, expect.stringContaining(reason)]);
  }
  expect(Object.keys(await refsOf(repoId))).toEqual(['refs/heads/main']);
});

test('so many tags that git compresses what it asks for: clone, fetch of as many again, and a push', async () => {
  const { remote, work, repoId } = await begin();
  const TAGS = 800;
  const oids = [];
  for (const round of [1, 2]) {
    const parent = await commitFiles(work, { 'a.txt': `${round}` });
    const tree = await work(['rev-parse', 'HEAD^{tree}']);
    // Tags of commits of their own, so that a client has as many things to say that it has.
    const stream = Array.from(
      { length: TAGS },
      (_, n) =>
        `commit refs/tags/t${round}-${n}\ncommitter A <a@b> ${n} +0000\ndata 1\nx\nfrom ${parent}\nM 040000 ${tree} \n\n`,
    ).join('');
    await work(['fast-import', '--quiet'], { input: stream });
    oids.push(parent);
    await work(['push', '--quiet', remote, 'main']);
    const names = Array.from({ length: TAGS }, (_, n) => `t${round}-${n}`);
    const values = (await work(['rev-parse', ...names])).split('\n');
    const pack = await packOfAll(work, values);
    const commands = names.map((name, n) => ({ new: values[n]!, name: `refs/tags/${name}` }));
    // Sent as bytes: stock git matches that many names for long before it sends anything.
    expect((await sendPush(remote, Buffer.concat([preamble(commands), pack]))).text).toContain(
      'ok refs/tags/t',
    );
    if (round === 1) await gitIn(pusher.folder)(['clone', '--quiet', remote, 'clone']);
  }
  const clone = gitIn(`${pusher.folder}/clone`);
  await clone(['fetch', '--quiet', '--tags']);
  expect((await clone(['tag'])).split('\n')).toHaveLength(2 * TAGS);
  expect(await clone(['rev-parse', 'origin/main'])).toBe(oids[1]);
  await commitFiles(clone, { 'b.txt': 'more' });
  await clone(['push', '--quiet', '--force', 'origin', 'HEAD:refs/heads/more']);
  expect(Object.keys(await refsOf(repoId))).toContain('refs/heads/more');
});

async function packOfAll(git: Git, oids: readonly string[]): Promise<Buffer> {
  const merged = await git([
    'commit-tree',
    `${oids[0]}^{tree}`,
    ...oids.flatMap((oid) => ['-p', oid]),
    '-m',
    'all',
  ]);
  return await packOf(git, merged);
}

test('a client that stands still in the middle of its pack keeps no transaction open', async () => {
  const { remote, work, repoId } = await begin();
  const commit = await commitFiles(work, { 'a.txt': 'one' });
  const body = Buffer.concat([
    preamble([{ new: commit, name: 'refs/heads/main' }]),
    await packOf(work, commit),
  ]);
  const { port } = new URL(remote);
  const socket = connect(Number(port), '127.0.0.1');
  const answered = new Promise<string>((resolve, reject) => {
    let text = '';
    socket.on('data', (chunk) => (text += chunk.toString('latin1')));
    socket.on('end', () => resolve(text));
    socket.on('error', reject);
  });
  socket.write(
    `POST /${repoId}.git/git-receive-pack HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/x-git-receive-pack-request\r\nContent-Length: ${body.length}\r\n\r\n`,
  );
  socket.write(body.subarray(0, -30));
  const isUnpacking = () =>
    readdirSync(join(pusher.folder, 'data', 'repos'), { recursive: true, encoding: 'utf8' }).some((name) =>
      name.includes('incoming'),
    );
  await vi.waitFor(() => expect(isUnpacking()).toBe(true), BOUND);
  // One that passes is none of its: it is looked for until there is none.
  await vi.waitFor(async () => {
    const { rows } = await sql`
      select pid from pg_stat_activity
       where datname = current_database() and xact_start is not null and pid <> pg_backend_pid()
         and backend_type = 'client backend'`.execute(pusher.database.db);
    expect(rows).toEqual([]);
  }, BOUND);
  expect(isUnpacking()).toBe(true);
  socket.write(body.subarray(-30));
  expect(await answered).toContain('ok refs/heads/main');
  expect(await refsOf(repoId)).toEqual({ 'refs/heads/main': commit });
});

test.each(['a file that points elsewhere', 'a link'])(
  '%s in place of a repository is not followed',
  async (what) => {
    const { remote, work, repoId } = await begin();
    const commit = await commitFiles(work, { 'a.txt': 'one' });
    await work(['push', '--quiet', remote, 'main']);
    const privateWork = await makeRepo(`${pusher.folder}/private`);
    // It lacks nothing that the refs name: that it is another repository is all that stands in the way.
    await privateWork(['pull', '--quiet', remote, 'main']);
    const secret = await commitFiles(privateWork, { 'secret.txt': 'secret' });
    const folder = repoFolder(join(pusher.folder, 'data'), repoId, 'sha1');
    renameSync(folder, `${folder}.away`);
    const elsewhere = join(privateWork.folder, '.git');
    if (what === 'a link') symlinkSync(elsewhere, folder);
    else writeFileSync(folder, `gitdir: ${elsewhere}\n`);
    for (const args of [
      ['clone', '--quiet', remote, 'clone'],
      ['fetch', '--quiet', remote, secret],
    ]) {
      const git = args[0] === 'clone' ? gitIn(pusher.folder) : work;
      expect((await git.attempt(args)).code).not.toBe(0);
    }
    const moved = await sendPush(
      remote,
      Buffer.concat([preamble([{ old: commit, new: secret, name: 'refs/heads/main' }]), EMPTY_PACK]),
    );
    expect(moved.text).not.toContain('ok refs/heads/main');
    expect(await refsOf(repoId)).toEqual({ 'refs/heads/main': commit });
    expect(await privateWork(['for-each-ref', '--format=%(refname)'])).toBe('refs/heads/main');
    rmSync(folder);
    renameSync(`${folder}.away`, folder);
    // A repository that lacked objects is looked at again every two seconds.
    const clone = (): Promise<string> => gitIn(pusher.folder)(['clone', '--quiet', remote, 'clone']);
    await vi.waitFor(clone, { ...BOUND, interval: 500 });
  },
);
