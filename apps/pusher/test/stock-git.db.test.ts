import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { commitFiles, defineEffect, gitIn, makeRepo, type Git } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { EMPTY_PACK, preamble, reportOf, sendPush } from './raw-push.ts';
import { usePusher } from './use-pusher.ts';

const pusher = usePusher();
let count = 0;

async function start(
  env: Record<string, string> = {},
): Promise<{ url: string; remote: string; repoId: string; work: Git }> {
  const { url } = await pusher.start(env);
  count += 1;
  const repoId = `stock/r${count}`;
  const work = await makeRepo(`${pusher.folder}/work`);
  return { url, repoId, remote: `${url}/${repoId}.git`, work };
}

async function remoteRefs(remote: string): Promise<Record<string, string>> {
  const listed = await gitIn(pusher.folder)(['ls-remote', remote]);
  const lines = listed === '' ? [] : listed.split('\n').map((line) => line.split('\t') as [string, string]);
  return Object.fromEntries(lines.map(([oid, name]) => [name, oid]));
}

async function effectsOf(repoId: string): Promise<{ name: string; state: string; reason: string | null }[]> {
  const rows = await pusher.database.db
    .selectFrom('effect')
    .select(['name', 'state', 'reason'])
    .where('repo_id', '=', repoId)
    .orderBy('effect_id')
    .execute();
  return rows as { name: string; state: string; reason: string | null }[];
}

test('a sha256 repository is made by its first push, clones and fetches', async () => {
  const { url } = await start();
  const work = await makeRepo(`${pusher.folder}/long`, { objectFormat: 'sha256' });
  const first = await commitFiles(work, { 'a.txt': 'one' });
  await defineEffect(work, 'test', 'on: [refs/heads/*]\nrun: make\n');
  // The advertisement of a new repository names one hash, and git learns it before it says what its own is.
  expect((await work.attempt(['push', `${url}/long.git`, 'main'])).code).not.toBe(0);

  const pushed = await work.attempt(['push', `${url}/_sha256/long.git`, 'main', 'refs/meta/effects/test']);
  expect(pushed.stderr).toMatch(/remote: push [0-9a-f]{64}\s/);
  expect(pushed.stderr).toContain('queued');
  const clone = gitIn(`${pusher.folder}/clone`);
  await gitIn(pusher.folder)(['clone', '--quiet', `${url}/long.git`, 'clone']);
  expect(await clone(['rev-parse', 'HEAD'])).toBe(first);

  const second = await commitFiles(work, { 'a.txt': 'two' });
  await work(['push', '--quiet', `${url}/long.git`, 'main']);
  await clone(['fetch', '--quiet']);
  expect(await clone(['rev-parse', 'origin/main'])).toBe(second);
  const sha1 = await makeRepo(`${pusher.folder}/short`);
  await commitFiles(sha1, { 'a.txt': 'one' });
  expect((await sha1.attempt(['push', `${url}/long.git`, 'main'])).stderr).toContain('hash algorithm');
});

test('a server may make sha256 its default', async () => {
  const { url } = await start({ SLUICE_OBJECT_FORMAT: 'sha256' });
  const work = await makeRepo(`${pusher.folder}/long`, { objectFormat: 'sha256' });
  await commitFiles(work, { 'a.txt': 'one' });
  await work(['push', '--quiet', `${url}/default.git`, 'main']);
});

test('branches are moved, forced and deleted, and a fetch sees each step', async () => {
  const { remote, work } = await start();
  const one = await commitFiles(work, { 'a.txt': 'one' });
  await work(['push', '--quiet', remote, 'main', 'main:topic']);
  expect(await remoteRefs(remote)).toEqual({ HEAD: one, 'refs/heads/main': one, 'refs/heads/topic': one });
  const two = await commitFiles(work, { 'a.txt': 'two' });
  await work(['tag', '-a', 'v1', '-m', 'first']);
  const tag = await work(['rev-parse', 'v1']);
  await work(['push', '--quiet', remote, 'main', 'v1']);
  await work(['commit', '--quiet', '--amend', '-m', 'rewritten']);
  const rejected = await work.attempt(['push', remote, 'main']);
  expect(rejected.stderr).toContain('non-fast-forward');
  await work(['push', '--quiet', '--force', remote, 'main']);
  await work(['push', '--quiet', remote, '--delete', 'topic']);
  const three = await work(['rev-parse', 'main']);
  expect(await remoteRefs(remote)).toEqual({
    HEAD: three,
    'refs/heads/main': three,
    'refs/tags/v1': tag,
    'refs/tags/v1^{}': two,
  });
  // What no ref names any more can still be fetched by its OID.
  await gitIn(pusher.folder)(['clone', '--quiet', remote, 'clone']);
  await gitIn(`${pusher.folder}/clone`)(['fetch', '--quiet', remote, two]);
});

test('HEAD of a new repository is the branch that was pushed', async () => {
  const { remote, work } = await start();
  const commit = await commitFiles(work, { 'a.txt': 'one' });
  await work(['push', '--quiet', remote, 'main:trunk', 'main:other']);
  await gitIn(pusher.folder)(['clone', '--quiet', remote, 'clone']);
  expect(await gitIn(`${pusher.folder}/clone`)(['rev-parse', 'HEAD'])).toBe(commit);
});

test('names that are unusual but valid are kept byte for byte', async () => {
  const { remote, work, repoId } = await start();
  const commit = await commitFiles(work, { 'a.txt': 'one' });
  const names = [
    'fruit-🍌',
    'caf\u00e9',
    'cafe\u0301',
    'a#b',
    'a%2Fb',
    'a%b',
    'Feature/a',
    'feature/a',
    '--output=x',
    '-x',
    '$(id)',
    'a;b',
    "it's",
    'x'.repeat(200),
  ].map((name) => `refs/heads/${name}`);
  for (const name of names) await work(['update-ref', name, commit]);
  await work(['push', '--quiet', remote, ...names.map((name) => `${name}:${name}`)]);
  const rows = await pusher.database.db
    .selectFrom('ref')
    .select('name')
    .where('repo_id', '=', repoId)
    .execute();
  expect(rows.map((row) => row.name).toSorted()).toEqual(names.toSorted());
  const { HEAD: _, ...listed } = await remoteRefs(remote);
  expect(Object.keys(listed).toSorted()).toEqual(names.toSorted());
  await work(['push', '--quiet', remote, ':refs/heads/feature/a']);
  expect(Object.keys(await remoteRefs(remote))).toContain('refs/heads/Feature/a');
});

test('a large push arrives in chunks after a probe, with and without credentials', async () => {
  const { url, remote, work } = await start({ SLUICE_TOKEN: 'secret-1' });
  writeFileSync(join(work.folder, 'big'), randomBytes(5 * 1024 * 1024));
  const commit = await commitFiles(work, {});
  expect((await work.attempt(['push', remote, 'main'])).stderr).toMatch(
    /could not read Username|Authentication failed/,
  );
  const wrong = url.replace('//', '//x:secret-2@');
  expect((await work.attempt(['push', `${wrong}/big.git`, 'main'])).code).not.toBe(0);
  const right = url.replace('//', '//x:secret-1@');
  await work(['push', '--quiet', `${right}/big.git`, 'main']);
  await gitIn(pusher.folder)(['clone', '--quiet', `${right}/big.git`, 'clone']);
  expect(await gitIn(`${pusher.folder}/clone`)(['rev-parse', 'HEAD'])).toBe(commit);
  expect((await fetch(`${url}/_health`)).status).toBe(200);
  expect((await fetch(`${url}/_metrics`)).status).toBe(401);
});

test('thousands of branches and tags are one push', async () => {
  const { remote, work, repoId } = await start();
  const commit = await commitFiles(work, { 'a.txt': 'one' });
  await defineEffect(work, 'test', 'on: [refs/heads/b7]\nrun: make\n');
  await work(['push', '--quiet', remote, 'main', 'refs/meta/effects/test']);
  const branches = Array.from({ length: 3000 }, (_, n) => `refs/heads/b${n}`);
  const tags = Array.from({ length: 2000 }, (_, n) => `refs/tags/t${n}`);
  // Sent as bytes: stock git takes a quarter of a minute to match that many names before it sends anything.
  const body = preamble([...branches, ...tags].map((name) => ({ new: commit, name })));
  const pushed = await sendPush(remote, Buffer.concat([body, EMPTY_PACK]));
  expect(pushed.text).toMatch(/test for refs\/heads\/b7: queued/);
  expect(pushed.text).toMatch(/and 4991 more pairs of effect and ref that do not match/);
  expect(reportOf(pushed).match(/ok refs\//g)).toHaveLength(5000);
  const { db } = pusher.database;
  const records = await db
    .selectFrom('op_record')
    .select('seq')
    .where('repo_id', '=', repoId)
    .orderBy('seq')
    .execute();
  expect(records).toEqual([{ seq: 1n }, { seq: 2n }]);
  // With this many refs git compresses what it asks for.
  await gitIn(pusher.folder)(['clone', '--quiet', '--mirror', remote, 'mirror']);
  const mirrored = await gitIn(`${pusher.folder}/mirror`)(['for-each-ref', '--format=%(refname)']);
  expect(mirrored.split('\n')).toHaveLength(5002);
});

test('an effect runs once per commit, a new commit supersedes, and the push says so', async () => {
  const { remote, work, repoId } = await start();
  await defineEffect(
    work,
    'ci',
    'on: [refs/heads/*]\nrun: make\nconcurrency: { group: "{ref}", supersede: true }\n',
  );
  const one = await commitFiles(work, { 'a.txt': 'one' });
  await work(['push', '--quiet', remote, 'main', 'refs/meta/effects/ci']);
  await commitFiles(work, { 'a.txt': 'two' });
  const second = await work.attempt(['push', remote, 'main']);
  expect(second.stderr).toMatch(/remote: effect (\d+) superseded by \d+/);
  const back = await work.attempt(['push', '--force', remote, `${one}:refs/heads/main`]);
  expect(back.stderr).toMatch(/queued/);
  expect(await effectsOf(repoId)).toMatchObject([
    { state: 'superseded' },
    { state: 'superseded' },
    { state: 'enqueued' },
  ]);
  await work(['push', '--quiet', remote, '--delete', 'main']);
  const recreated = await work.attempt(['push', remote, `${one}:refs/heads/main`]);
  expect(recreated.stderr).toMatch(/remote: effect \d+ ci for refs\/heads\/main: already there/);
  expect(await effectsOf(repoId)).toHaveLength(3);
});

test('what does not run is explained, and what a limit or the push itself stops is recorded', async () => {
  const { remote, work, repoId } = await start({ SLUICE_EFFECTS_PER_PUSH: '2' });
  await commitFiles(work, { 'a.txt': 'one' });
  await defineEffect(work, 'ci', 'on: [refs/heads/*, "!refs/heads/wip/*"]\nrun: make\n');
  const first = await work.attempt(['push', remote, 'main', 'main:wip/x', 'refs/meta/effects/ci']);
  expect(first.stderr).toMatch(
    /no effect ci for refs\/heads\/wip\/x: matches none|no effect ci for refs\/heads\/wip\/x: excluded/,
  );
  expect(first.stderr).not.toContain('no effect ci for refs/meta/effects/ci');
  const many = await work.attempt(['push', remote, 'main:a', 'main:b', 'main:c']);
  expect(many.stderr).toMatch(/skipped: more than 2 effects in one push/);
  const asked = await work.attempt(['push', '-o', 'ci.skip', remote, 'main:d']);
  expect(asked.stderr).toMatch(/skipped: the push asked for it: ci\.skip/);
  expect((await effectsOf(repoId)).map(({ state, reason }) => [state, reason])).toEqual([
    ['enqueued', null],
    ['enqueued', null],
    ['enqueued', null],
    ['skipped', 'more than 2 effects in one push'],
    ['skipped', 'the push asked for it: ci.skip'],
  ]);
});

test('a tag runs the commit that it leads to, and a deletion runs nothing', async () => {
  const { remote, work, repoId } = await start();
  const commit = await commitFiles(work, { 'a.txt': 'one' });
  await work(['tag', '-a', 'v1', '-m', 'first']);
  await defineEffect(work, 'release', 'on: [refs/tags/*]\nrun: make\n');
  await work(['push', '--quiet', remote, 'v1', 'refs/meta/effects/release']);
  const [effect] = await pusher.database.db
    .selectFrom('effect_queue')
    .select('payload')
    .where('repo_id', '=', repoId)
    .execute();
  expect(JSON.parse(effect!.payload)).toMatchObject({
    trigger: { ref: 'refs/tags/v1', new: await work(['rev-parse', 'v1']) },
    source: { commit },
  });
  const deleted = await work.attempt(['push', remote, ':refs/tags/v1']);
  expect(deleted.stderr).toContain('a deletion counts only with');
  expect(await effectsOf(repoId)).toHaveLength(1);
});

test('a push from a shallow clone is taken when its history is here', async () => {
  const { remote, work } = await start();
  for (const text of ['one', 'two', 'three']) await commitFiles(work, { 'a.txt': text });
  await work(['push', '--quiet', remote, 'main']);
  await gitIn(pusher.folder)(['clone', '--quiet', '--depth=1', remote, 'shallow']);
  const shallow = gitIn(`${pusher.folder}/shallow`);
  await commitFiles(shallow, { 'b.txt': 'more' });
  await shallow(['push', '--quiet', 'origin', 'main']);
  const elsewhere = remote.replace(/\.git$/, '-new.git');
  const refused = await shallow.attempt(['push', elsewhere, 'main']);
  expect(refused.stderr).toContain('shallow update not allowed');
});
