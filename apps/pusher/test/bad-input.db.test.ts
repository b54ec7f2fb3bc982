import { readdirSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { commitFiles, defineEffect, makeRepo, type Git } from '@sluice/testkit';
import { beforeEach, expect, test } from 'vitest';
import { encodePkt, FLUSH } from '../src/wire/pkt-line.ts';
import { packOf } from './pack-of.ts';
import { EMPTY_PACK, preamble, reportOf, send, sendPush, type RawCommand } from './raw-push.ts';
import { usePusher } from './use-pusher.ts';

const pusher = usePusher();

let url: string;
let remote: string;
let work: Git;
let commit: string;
let pack: Buffer;
let count = 0;

beforeEach(async () => {
  ({ url } = await pusher.start({ SLUICE_IDLE_MS: '20000' }));
  count += 1;
  remote = `${url}/bad/repo-${count}.git`;
  work = await makeRepo(`${pusher.folder}/work`);
  commit = await commitFiles(work, { 'a.txt': `hello ${count}` });
  pack = await packOf(work, commit);
});

async function refNames(): Promise<string[]> {
  const rows = await pusher.database.db
    .selectFrom('ref')
    .select('name')
    .where('repo_id', '=', `bad/repo-${count}`)
    .orderBy('name')
    .execute();
  return rows.map((row) => row.name);
}

test.each([
  ['refs/heads/../../evil', 'contains ..'],
  ['refs/heads/a b', 'contains a space'],
  ['refs/heads/x.lock', 'ends with .lock'],
  ['refs/heads/x\ny', 'U+000A'],
  ['refs/heads/\u202etxt', 'U+202E'],
  ['refs/heads/a\u001b[2J', 'U+001B'],
  ['refs/heads/a//b', '//'],
  ['refs/heads/.a', 'starts with a dot'],
  ['refs/heads/a~1', 'contains ~'],
  ['refs/heads/a@{1}', '@{'],
  ['HEAD', 'starts with refs/'],
  ['main', 'starts with refs/'],
  ['../../etc/passwd', 'starts with refs/'],
  [`refs/heads/${'x'.repeat(1100)}`, 'more than 1024'],
  [`refs/heads/${'x'.repeat(300)}/c`, 'at most 250 bytes between slashes, got 300'],
  ['refs/meta/results/test/x', 'results are written by dispatchers'],
  ['refs/meta/effects/a/b', 'one segment'],
  ['refs/meta/effects/a:b', 'contains :'],
])('%j is no name for a ref', async (name, reason) => {
  const answer = await sendPush(remote, Buffer.concat([preamble([{ new: commit, name }]), pack]));
  expect(answer.status).toBe(200);
  expect(answer.text).toContain('ng ');
  expect(answer.text).toContain(reason);
  expect(await refNames()).toEqual([]);
});

test('a ref that no clone could keep can be deleted, and keeps no other from being pushed', async () => {
  await work(['push', '--quiet', remote, 'main']);
  const long = `refs/heads/${'x'.repeat(251)}`;
  await pusher.database.db
    .insertInto('ref')
    .values({ repo_id: `bad/repo-${count}`, name: long, oid: commit })
    .execute();
  const push = async (edit: RawCommand): Promise<string> =>
    reportOf(await sendPush(remote, Buffer.concat([preamble([edit]), EMPTY_PACK])));
  expect(await push({ old: commit, new: commit, name: long })).toContain('got 251');
  expect(await push({ new: commit, name: 'refs/heads/other' })).toContain('ok refs/heads/other');
  expect(reportOf(await sendPush(remote, preamble([{ old: commit, name: long }])))).toContain(`ok ${long}`);
  expect(await refNames()).toEqual(['refs/heads/main', 'refs/heads/other']);
});

test('names as long as they may be are fetched by stock git', async () => {
  const longest = 'x'.repeat(250);
  await work([
    'push',
    '--quiet',
    remote,
    'main',
    `main:refs/heads/${longest}`,
    `main:refs/tags/${longest}/c`,
  ]);
  const reader = await makeRepo(`${pusher.folder}/reader`);
  await reader(['fetch', '--quiet', remote, 'refs/*:refs/fetched/*']);
  expect(await reader(['rev-parse', `refs/fetched/heads/${longest}`])).toBe(commit);
});

test('bytes that are not UTF-8 are refused, and the others with them', async () => {
  const name = Buffer.concat([Buffer.from('refs/heads/'), Buffer.from([0xff, 0xfe])]);
  const body = preamble([
    { new: commit, name },
    { new: commit, name: 'refs/heads/good' },
  ]);
  const answer = await sendPush(remote, Buffer.concat([body, pack]));
  expect(answer.text).toContain('expected valid UTF-8');
  expect(answer.text).toContain('ng refs/heads/good not applied: another ref of this push was refused');
  expect(await refNames()).toEqual([]);
});

test('a ref named twice is refused', async () => {
  const body = preamble([
    { new: commit, name: 'refs/heads/x' },
    { new: commit, name: 'refs/heads/x' },
  ]);
  const answer = await sendPush(remote, Buffer.concat([body, pack]));
  expect(answer.text).toContain('named more than once');
  expect(await refNames()).toEqual([]);
});

test('a name cannot be a branch and a folder of branches, within one push and across two', async () => {
  const both = preamble([
    { new: commit, name: 'refs/heads/a' },
    { new: commit, name: 'refs/heads/a/b' },
  ]);
  expect((await sendPush(remote, Buffer.concat([both, pack]))).text).toContain('conflicts with refs/heads/a');
  await work(['push', '--quiet', remote, 'main:refs/heads/a']);
  const second = await sendPush(
    remote,
    Buffer.concat([preamble([{ new: commit, name: 'refs/heads/a/b' }]), pack]),
  );
  expect(second.text).toContain('conflicts with the existing ref refs/heads/a');
  expect(await refNames()).toEqual(['refs/heads/a']);
});

test('one stale ref among many refuses all, each with its reason', async () => {
  await work(['push', '--quiet', remote, 'main:refs/heads/one', 'main:refs/heads/two']);
  const next = await commitFiles(work, { 'a.txt': 'next' });
  const body = preamble([
    { old: commit, new: next, name: 'refs/heads/one' },
    { old: next, new: next, name: 'refs/heads/two' },
    { new: next, name: 'refs/tags/v1' },
  ]);
  const answer = await sendPush(remote, Buffer.concat([body, await packOf(work, next)]));
  expect(answer.text).toMatch(
    /ng refs\/heads\/two stale: expected [0-9a-f]{12}, but it is [0-9a-f]{12}; fetch and try again/,
  );
  expect(answer.text).toContain('ng refs/heads/one not applied');
  expect(answer.text).toContain('ng refs/tags/v1 not applied');
  expect(await refNames()).toEqual(['refs/heads/one', 'refs/heads/two']);
});

test('deleting what does not exist is refused as stale or changes nothing, and neither value is refused', async () => {
  await work(['push', '--quiet', remote, 'main']);
  const gone = await sendPush(remote, preamble([{ old: commit, name: 'refs/heads/none' }]));
  expect(gone.text).toContain('ng refs/heads/none');
  const neither = await sendPush(remote, preamble([{ name: 'refs/heads/none' }]));
  expect(neither.text).toContain('expected an old or a new value, got neither');
  expect(await refNames()).toEqual(['refs/heads/main']);
});

test('an object that is not there is refused, and so is a branch that is no commit', async () => {
  const missing = await sendPush(
    remote,
    Buffer.concat([preamble([{ new: 'd'.repeat(40), name: 'refs/heads/x' }]), pack]),
  );
  expect(missing.text).toMatch(/ng refs\/heads\/x (?:missing necessary objects|not applied|expected)/);
  const tree = await work(['rev-parse', 'HEAD^{tree}']);
  const noCommit = await sendPush(
    remote,
    Buffer.concat([preamble([{ new: tree, name: 'refs/heads/x' }]), pack]),
  );
  expect(noCommit.text).toContain('ng refs/heads/x expected a commit on a branch, got a tree');
  expect(await refNames()).toEqual([]);
});

test('a malformed definition refuses the push with line, column and what was expected', async () => {
  await defineEffect(work, 'test', 'on: [refs/heads/*]\nrun: 7\n  bad: [\n');
  const { code, stderr } = await work.attempt(['push', remote, 'main', 'refs/meta/effects/test']);
  expect(code).toBe(1);
  expect(stderr).toMatch(/refs\/meta\/effects\/test .*\(effect\.yaml:\d+:\d+: .*expected/s);
  expect(stderr).toMatch(/main -> main \(not applied: another ref of this push was refused\)/);
  await defineEffect(work, 'test', 'on: [refs/heads/*]\nrun: [1]\n');
  expect((await work.attempt(['push', remote, '+refs/meta/effects/test'])).stderr).toMatch(
    /effect\.yaml:2:\d+/,
  );
  await work(['update-ref', 'refs/meta/effects/empty', commit]);
  expect((await work.attempt(['push', remote, 'refs/meta/effects/empty'])).stderr).toContain(
    'expected a file effect.yaml',
  );
  expect(await refNames()).toEqual([]);
});

test('a client that asks for no report is answered without one, and its push counts', async () => {
  const body = Buffer.concat([preamble([{ new: commit, name: 'refs/heads/quiet' }], ''), pack]);
  const answer = await sendPush(remote, body);
  expect(answer).toMatchObject({ status: 200, text: '' });
  expect(await refNames()).toEqual(['refs/heads/quiet']);
});

test('a repository holds a bounded number of definitions', async () => {
  const definition = await defineEffect(work, 'test', 'on: [refs/heads/*]\nrun: make\n');
  await work(['push', '--quiet', remote, 'main', 'refs/meta/effects/test']);
  const more = (count: number): Buffer =>
    preamble(Array.from({ length: count }, (_, n) => ({ new: definition, name: `refs/meta/effects/e${n}` })));
  const refused = await sendPush(remote, Buffer.concat([more(500), EMPTY_PACK]));
  expect(reportOf(refused)).toContain('expected at most 500 effect definitions in a repository, got 501');
  expect(await refNames()).toHaveLength(2);
  expect(reportOf(await sendPush(remote, Buffer.concat([more(499), EMPTY_PACK])))).toContain(
    'ok refs/meta/effects/e498',
  );
  await work(['push', '--quiet', remote, 'main:other']);
});

test('a push that would be matched for minutes is refused, and a smaller one is not', async () => {
  const slow = JSON.stringify(`refs/${'*a'.repeat(125)}`);
  const definition = await defineEffect(
    work,
    'slow',
    `on: [${Array(64).fill(slow).join(', ')}]\nrun: make\n`,
  );
  await work(['push', '--quiet', remote, 'main', 'refs/meta/effects/slow']);
  const copies = Array.from({ length: 300 }, (_, n) => ({
    new: definition,
    name: `refs/meta/effects/e${n}`,
  }));
  expect(reportOf(await sendPush(remote, Buffer.concat([preamble(copies), EMPTY_PACK])))).toContain(
    'ok refs/meta/effects/e299',
  );
  const branches = (count: number): Buffer =>
    preamble(Array.from({ length: count }, (_, n) => ({ new: commit, name: `refs/heads/branch-${n}` })));
  const refused = await sendPush(remote, Buffer.concat([branches(500), EMPTY_PACK]));
  expect(reportOf(refused)).toContain('push fewer refs at once');
  expect(await refNames()).toHaveLength(302);
  expect(reportOf(await sendPush(remote, Buffer.concat([branches(5), EMPTY_PACK])))).toContain(
    'ok refs/heads/branch-4',
  );
});

test('a corrupt pack is refused by git, and nothing is left of it', async () => {
  const corrupt = Buffer.from(pack);
  corrupt[corrupt.length - 30]! ^= 0xff;
  const body = preamble([{ new: commit, name: 'refs/heads/main' }]);
  const answer = await sendPush(remote, Buffer.concat([body, corrupt]));
  expect(answer.status).toBe(200);
  expect(answer.text).toContain('unpack ');
  expect(answer.text).not.toContain('unpack ok');
  const cut = await sendPush(remote, Buffer.concat([body, pack.subarray(0, -25)]));
  expect(cut.text).not.toContain('unpack ok');
  expect(await refNames()).toEqual([]);
  await work(['push', '--quiet', remote, 'main']);
  expect(await refNames()).toEqual(['refs/heads/main']);
  expect(filesBelow(join(pusher.folder, 'data', 'repos')).filter((name) => /incoming/.test(name))).toEqual(
    [],
  );
});

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' });
}

test('bytes that are no push get 400, and the server goes on', async () => {
  for (const body of [
    'hello',
    'zzzz',
    '0000000',
    '00',
    `${'f'.repeat(100)}`,
    '0032not a command at all, whatever it may be....',
  ]) {
    const answer = await sendPush(remote, Buffer.from(body));
    expect([400, 200]).toContain(answer.status);
    expect(answer.text).not.toContain('ok ');
  }
  expect((await send(`${url}/_health`)).status).toBe(200);
});

test('the probe ahead of a large push is answered, and makes nothing', async () => {
  expect(await sendPush(remote, FLUSH)).toMatchObject({ status: 200, text: '' });
  expect(
    await pusher.database.db
      .selectFrom('repo')
      .select('repo_id')
      .where('repo_id', '=', `bad/repo-${count}`)
      .execute(),
  ).toEqual([]);
});

test('limits on refs, options and certificates are refused with a report', async () => {
  const many = Array.from({ length: 20_001 }, (_, n) => ({ new: commit, name: `refs/heads/${n}` }));
  expect((await sendPush(remote, preamble(many))).text).toContain('at most 20000 refs');
  const certificate = Buffer.concat([
    ...['push-cert\0report-status\n', 'x\n', 'push-cert-end\n'].map(encodePkt),
    FLUSH,
  ]);
  expect((await sendPush(remote, certificate)).text).toContain(
    'unpack expected a push certificate with one signature',
  );
  const options = Buffer.concat([
    preamble([{ new: commit, name: 'refs/heads/x' }], 'report-status push-options'),
    ...Array.from({ length: 100 }, () => encodePkt('x')),
    FLUSH,
  ]);
  expect((await sendPush(remote, options)).text).toContain('at most 64 push options');
});

test.each([
  ['the wrong type', { 'content-type': 'text/plain' }, 415],
  ['compression', { 'content-encoding': 'gzip' }, 415],
  ['an unknown encoding', { 'content-encoding': 'br' }, 415],
])('a push with %s is refused', async (_, headers, status) => {
  expect((await sendPush(remote, preamble([{ new: commit, name: 'refs/heads/x' }]), headers)).status).toBe(
    status,
  );
});

test('a body that ends nobody knows where is refused, before it is read or its sender is known', async () => {
  for (const encoding of ['xchunked', 'gzip', 'identity', 'gzip, chunked']) {
    const answer = await send(`${url}/_health`, { headers: { 'transfer-encoding': encoding } });
    expect(answer.status).toBe(400);
  }
  const chunked = { 'transfer-encoding': 'Chunked' };
  expect((await sendPush(remote, FLUSH, chunked)).status).toBe(200);
});

test('names of repositories that are tricks make no folder', async () => {
  for (const path of [
    '/../x.git/info/refs?service=git-receive-pack',
    '/a/..%2f..%2fx.git/info/refs?service=git-receive-pack',
    '/.git/info/refs?service=git-receive-pack',
    '/x.git.git/info/refs?service=git-receive-pack',
    '/a%00b.git/info/refs?service=git-receive-pack',
    `/${'x'.repeat(300)}.git/info/refs?service=git-receive-pack`,
  ]) {
    expect([400, 404]).toContain((await send(url, { path })).status);
  }
  expect((await send(`${url}/unknown.git/info/refs?service=git-upload-pack`)).status).toBe(404);
  expect((await send(`${url}/unknown.git/info/refs?service=git-receive-pack`)).status).toBe(200);
  expect(filesBelow(join(pusher.folder, 'data')).filter((name) => name.startsWith('repos/'))).toEqual([]);
});

test('methods that a route does not have are answered, and HEAD has no body', async () => {
  const refs = `${url}/x.git/info/refs?service=git-receive-pack`;
  expect(await send(refs, { method: 'HEAD' })).toMatchObject({ status: 200, text: '' });
  expect(await send(refs, { method: 'DELETE' })).toMatchObject({
    status: 405,
    headers: { allow: 'GET, HEAD' },
  });
  expect(await send(`${url}/x.git/git-receive-pack`)).toMatchObject({
    status: 405,
    headers: { allow: 'POST' },
  });
  expect((await send(`${url}/_metrics`)).text).toContain('sluice_pushes_total');
});

test('another Host than this machine is refused', async () => {
  expect((await send(`${url}/_metrics`, { headers: { host: 'evil.example' } })).status).toBe(403);
});

test('a fetch request may be compressed; what does not inflate, or inflates beyond the limit, is refused', async () => {
  await work(['push', '--quiet', remote, 'main']);
  const fetchUrl = `${remote}/git-upload-pack`;
  const headers = { 'content-type': 'application/x-git-upload-pack-request', 'content-encoding': 'gzip' };
  const wants = gzipSync(Buffer.concat([encodePkt(`want ${commit}\n`), FLUSH, encodePkt('done\n')]));
  const good = await send(fetchUrl, { body: wants, headers });
  expect(good.status).toBe(200);
  expect(good.text).toContain('PACK');
  expect((await send(fetchUrl, { body: wants.subarray(0, -12), headers })).status).toBe(400);
  expect((await send(fetchUrl, { body: Buffer.from('not gzip'), headers })).status).toBe(400);
  expect((await send(fetchUrl, { body: gzipSync(Buffer.alloc(200 * 1024 * 1024)), headers })).status).toBe(
    413,
  );
});

test('two Hosts are refused', async () => {
  const { port, host } = new URL(url);
  const socket = connect(Number(port), '127.0.0.1');
  socket.write(`GET /_health HTTP/1.1\r\nHost: ${host}\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
  const answer = Buffer.concat(await socket.toArray()).toString();
  expect(answer).toMatch(/^HTTP\/1\.1 400 [^]*expected one Host header, got 2\n$/);
});

const FETCH = {
  'content-type': 'application/x-git-upload-pack-request',
  'git-protocol': 'version=2',
};
const DELIMITER = Buffer.from('0001');

test.each([
  ['an unknown command', [encodePkt('command=bad\n'), FLUSH], "invalid command 'bad'"],
  ['two commands', [encodePkt('command=ls-refs\n'), encodePkt('command=fetch\n'), FLUSH], 'requested after'],
  ['a delimiter first', [DELIMITER, FLUSH], 'no command requested'],
  ['the end of a response', [Buffer.from('0002')], 'unexpected response end packet'],
  [
    'another object format',
    [encodePkt('command=ls-refs\n'), encodePkt('object-format=sha256\n'), FLUSH],
    'mismatched object format: server sha1; client sha256',
  ],
  ['no end', [encodePkt('command=fetch\n')], 'the remote end hung up'],
])('a fetch request with %s is the fault of its sender', async (_, packets, reason) => {
  await work(['push', '--quiet', remote, 'main']);
  const answer = await send(`${remote}/git-upload-pack`, { body: Buffer.concat(packets), headers: FETCH });
  expect(answer).toMatchObject({ status: 400 });
  expect(answer.text).toMatch(/^expected a request of a fetch, got: /);
  expect(answer.text).toContain(reason);
  const names = pusher.events.map(({ event }) => event);
  expect(names).toContain('fetch_refused');
  expect(names).not.toContain('upload_pack_failed');
  expect(names).not.toContain('request_failed');
});

test.each(['version=0', 'version=2'])(
  'what never was is asked for, and git says so: %s',
  async (protocol) => {
    await work(['push', '--quiet', remote, 'main']);
    const unknown = '1'.repeat(40);
    const reader = await makeRepo(`${pusher.folder}/reader`);
    const fetched = await reader.attempt(['-c', `protocol.${protocol}`, 'fetch', remote, unknown]);
    expect(fetched.code).not.toBe(0);
    expect(fetched.stderr).toContain(`upload-pack: not our ref ${unknown}`);
    expect(pusher.events.map(({ event }) => event)).toContain('fetch_refused');
  },
);

test('a push above the limit hears so, and the connection is not left hanging', async () => {
  const { url: small } = await pusher.start({
    SLUICE_PUSH_BYTES: '1000',
    SLUICE_DATA_DIR: `${pusher.folder}/small`,
  });
  const body = Buffer.concat([
    preamble([{ new: commit, name: 'refs/heads/x' }]),
    pack,
    Buffer.alloc(3 * 1024 * 1024),
  ]);
  const answer = await sendPush(`${small}/small.git`, body).catch((error: unknown) => error);
  // Whoever sends on without listening may be cut off before it hears.
  if (!(answer instanceof Error))
    expect(answer).not.toMatchObject({ text: expect.stringContaining('ok refs/heads/x') });
  expect((await send(`${small}/_health`)).status).toBe(200);
});
