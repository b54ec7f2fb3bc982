import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { globSync, mkdirSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { loadServerKey, repoFolder } from '@sluice/ref-store';
import {
  commitFileAt,
  commitFiles,
  defineEffect,
  gitIn,
  makeCertificate,
  makeKey,
  makeRepo,
  signingWith,
  type CertificateParts,
  type Git,
} from '@sluice/testkit';
import { beforeEach, expect, test } from 'vitest';
import { NONCE_SECONDS_MAX, nonceSeed } from '../src/git/certificate-nonce.ts';
import { encodePkt, FLUSH } from '../src/wire/pkt-line.ts';
import { everythingOf, type Everything } from './everything-of.ts';
import { packOf } from './pack-of.ts';
import { nonceOf, signedPreamble } from './push-certificate.ts';
import { preamble, sendPush } from './raw-push.ts';
import { usePusher } from './use-pusher.ts';

const pusher = usePusher();

let remote: string;
let repoId: string;
let work: Git;
let commit: string;
/** Of the commit that a refused push brings along, and that nothing may be left of. */
let next: string;
let pack: Buffer;
let count = 0;

/** A repository with a branch and an effect. */
beforeEach(async () => {
  await begin({});
});

async function begin(env: Record<string, string>): Promise<void> {
  const { url } = await pusher.start({ ...env, SLUICE_DATA_DIR: `${pusher.folder}/data` });
  count += 1;
  repoId = `clean/r${count}`;
  remote = `${url}/${repoId}.git`;
  work = await makeRepo(join(pusher.folder, `work-${count}`));
  commit = await commitFiles(work, { 'a.txt': `one ${count}` });
  await defineEffect(work, 'ci', 'on: [refs/heads/*]\nrun: make\n');
  await work(['push', '--quiet', remote, 'main', 'refs/meta/effects/ci']);
  next = await commitFiles(work, { 'a.txt': `two ${count}` });
  pack = await packOf(work, next);
}

async function now(): Promise<Everything> {
  return await everythingOf(pusher.database.db, { repoId, folder: pusher.folder });
}

/** Each refused with its reason where the client sees it; and then everything is as it was. */
async function refuses(
  cases: Record<string, readonly [() => Promise<string>, string | RegExp]>,
): Promise<void> {
  const before = await now();
  expect(before.objects?.length).toBeGreaterThan(0);
  for (const [what, [send, reason]] of Object.entries(cases)) {
    expect([what, await send()]).toEqual([
      what,
      typeof reason === 'string' ? expect.stringContaining(reason) : expect.stringMatching(reason),
    ]);
    expect([what, await now()]).toEqual([what, before]);
    expect([what, globSync(`${pusher.folder}/data/repos/*/*/objects/tmp_objdir-incoming-*`)]).toEqual([
      what,
      [],
    ]);
  }
}

const raw = (bytes: Buffer, headers?: Record<string, string>) => async (): Promise<string> => {
  const { status, text } = await sendPush(remote, bytes, headers);
  return `${status} ${text}`;
};
const stock =
  (...args: string[]) =>
  async (): Promise<string> => {
    const { code, stderr } = await work.attempt(args);
    expect(code).not.toBe(0);
    return stderr;
  };

test('signed pushes that do not count', async () => {
  const keys = Object.fromEntries(
    ['admin', 'alice', 'robot', 'gone', 'stranger'].map((name) => [name, makeKey(pusher.folder, name)]),
  );
  for (const [name, role] of [
    ['admin', 'admin'],
    ['alice', 'writer'],
    ['robot', 'worker'],
    ['gone', 'writer'],
  ] as const) {
    const yaml = `role: ${role}\nrevoked: ${name === 'gone'}\nkeys:\n  - ${keys[name]!.publicKey}\n`;
    await commitFileAt(work, `refs/meta/members/${name}`, 'member.yaml', yaml);
  }
  await work(['push', '--quiet', remote, 'refs/meta/members/*']);
  const seed = nonceSeed(await loadServerKey(join(pusher.folder, 'data', 'server-key.pem')));
  const folder = repoFolder(join(pusher.folder, 'data'), repoId, 'sha1');
  const expired = Number((await nonceOf(remote)).split('-')[0]) - NONCE_SECONDS_MAX - 60;
  const signed = async (parts: Partial<CertificateParts> = {}): Promise<string> =>
    makeCertificate({
      pushee: remote,
      nonce: parts.nonce ?? (await nonceOf(remote)),
      commands: [{ new: next, name: 'refs/heads/x' }],
      key: keys['alice']!,
      ...parts,
    });
  const sent = (text: string) => raw(Buffer.concat([signedPreamble(text), pack]));
  const used = await signed({ commands: [{ new: commit, name: 'refs/heads/used' }] });
  expect(await sent(used)()).toContain('ok refs/heads/used');
  await work([...signingWith(keys['alice']!), 'push', '--quiet', '--signed', remote, ':refs/heads/used']);
  const withKey = (name: string, refspec: string) =>
    stock(...signingWith(keys[name]!), 'push', '--signed', remote, refspec);

  await refuses({
    'made for another repository': [
      sent(await signed({ pushee: remote.replace('/r', '/other') })),
      'is for another repository',
    ],
    'used before': [sent(used), 'the push certificate was used before'],
    'a nonce that has expired': [
      sent(
        await signed({
          nonce: `${expired}-${createHmac('sha1', `${folder}:${expired}`).update(seed).digest('hex')}`,
        }),
      ),
      `older than ${NONCE_SECONDS_MAX} seconds; push again`,
    ],
    'another command than the signed one': [
      sent((await signed()).replace('heads/x', 'heads/y')),
      'not one over this push certificate',
    ],
    'an unsigned command beside': [
      raw(
        Buffer.concat([
          signedPreamble(await signed()).subarray(0, -4),
          preamble([{ new: next, name: 'refs/heads/y' }]),
          pack,
        ]),
      ),
      '400 expected a push, got: expected signed refs alone',
    ],
    'a revoked key': [withKey('gone', 'main:x'), 'signed with a key of gone, who was revoked'],
    'an unknown key': [withKey('stranger', 'main:x'), 'a key of nobody who is a member here'],
    'a worker on a branch': [withKey('robot', 'main:x'), 'got that of robot, a worker'],
    'a writer on a definition': [
      withKey('alice', '+main:refs/meta/effects/ci'),
      'got that of alice, a writer',
    ],
    'two signatures': [
      sent((await signed()).replace(/(-----BEGIN[^]*)$/, '$1$1')),
      'with one signature, got several',
    ],
    '10 MB of certificate': [
      sent((await signed()).replace('nonce ', `pusher ${'x'.repeat(60_000)}\n`.repeat(170) + 'nonce ')),
      'at most 2097152 bytes',
    ],
  });
});

test('more refs, options and bytes than a push may have, and lists that are none', async () => {
  const many = Array.from({ length: 100_000 }, (_, n) => ({ new: next, name: `refs/heads/${n}` }));
  const option = (text: string): Buffer =>
    Buffer.concat([
      preamble([{ new: next, name: 'refs/heads/x' }], 'report-status push-options'),
      encodePkt(text),
      FLUSH,
      pack,
    ]);
  await refuses({
    '100,000 refs': [() => exchange(...asChunks(preamble(many))), 'at most 20000 refs in one push'],
    'a push option on two lines': [raw(option('ci.skip\nSeq: 1')), 'push options in UTF-8, each on one line'],
    '200 push options': [
      stock('push', ...Array<string[]>(200).fill(['-o', 'x']).flat(), remote, 'main'),
      'at most 64 push options',
    ],
    'a push option of 10 kB': [
      stock('push', '-o', 'x'.repeat(10_000), remote, 'main'),
      'at most 4096 bytes, got one of 10000',
    ],
    'no ref': [
      raw(Buffer.concat([encodePkt(`shallow ${commit}`), FLUSH, pack])),
      '400 expected a push, got: expected a list of refs',
    ],
    'a deletion of what is not there': [
      raw(preamble([{ old: commit, name: 'refs/heads/none' }])),
      'ng refs/heads/none',
    ],
    'a body in gzip': [
      raw(gzipSync(Buffer.concat([preamble([{ new: next, name: 'refs/heads/x' }]), pack])), {
        'content-encoding': 'gzip',
      }),
      '415 expected content-encoding identity',
    ],
  });
});

test('more refs than a push may have, on the screen of stock git', async () => {
  // With the usual limit git itself would be busy for minutes: it compares every name with every other.
  await begin({ SLUICE_REFS_PER_PUSH: '100' });
  const names = Array.from({ length: 101 }, (_, n) => `create refs/heads/many/${n} ${next}\n`);
  await work(['update-ref', '--stdin'], { input: names.join('') });
  await refuses({
    'all of them': [
      stock('push', remote, 'refs/heads/many/*'),
      'expected at most 100 refs in one push, got more. Push them in several parts.',
    ],
  });
});

test('a mirror with results in it, a clone without history, and a lease that is not held any more', async () => {
  await gitIn(pusher.folder)(['clone', '--quiet', '--mirror', remote, 'mirror']);
  const mirror = gitIn(`${pusher.folder}/mirror`);
  await mirror(['update-ref', `refs/meta/results/ci/${commit}`, commit]);
  await work(['push', '--quiet', remote, `${next}:refs/heads/moved`]);
  for (const text of ['three', 'four']) await commitFiles(work, { 'a.txt': text });
  await gitIn(pusher.folder)(['clone', '--quiet', '--depth=1', `file://${work.folder}`, 'shallow']);
  const shallow = gitIn(`${pusher.folder}/shallow`);
  const attempt =
    (git: Git, ...args: string[]) =>
    async () =>
      (await git.attempt(['push', ...args])).stderr;
  await refuses({
    'a mirror': [attempt(mirror, '--mirror', remote), 'results are written by dispatchers'],
    'a shallow clone': [attempt(shallow, remote, 'HEAD:refs/heads/x'), 'shallow update not allowed'],
    'a lease': [attempt(work, `--force-with-lease=moved:${commit}`, remote, 'main:moved'), 'stale info'],
    'a lease and another ref': [
      attempt(work, '--atomic', `--force-with-lease=moved:${commit}`, remote, 'main:moved', 'main:x'),
      'stale info',
    ],
  });
  await work(['push', '--quiet', `--force-with-lease=moved:${next}`, remote, 'main:moved']);
  await mirror(['update-ref', '-d', `refs/meta/results/ci/${commit}`]);
  await mirror(['update-ref', 'refs/heads/fresh', commit]);
  await mirror(['push', '--quiet', '--mirror', remote]);
  const listed = await mirror(['ls-remote', '--refs', remote]);
  expect(listed.split('\n').map((line) => line.split('\t')[1])).toEqual([
    'refs/heads/fresh',
    'refs/heads/main',
    'refs/meta/effects/ci',
  ]);
});

test('text that would move a cursor or turn a line around', async () => {
  const [escape, csi, override] = ['\u001b[2J', '\u009b31m', '\u202e'];
  // As YAML spells them; as they are, they are refused by their number.
  await commitFileAt(work, 'refs/meta/effects/evil', 'effect.yaml', '"\\e[2J\\u202e": 1\nrun: make\n');
  await commitFileAt(work, 'refs/meta/members/evil', 'member.yaml', 'role: "\\x9b31m\\u202e"\nkeys: []\n');
  const before = await now();
  for (const ref of ['refs/meta/effects/evil', 'refs/meta/members/evil']) {
    const { code, stderr } = await work.attempt(['push', remote, ref]);
    expect([code, stderr]).toEqual([1, expect.stringMatching(/\.yaml:1:\d+: .*got .*\ufffd/)]);
    expect(stderr).not.toMatch(/[^\P{Cc}\n]|\u202e/u);
  }
  for (const name of [`refs/meta/effects/${override}x`, `refs/meta/members/${csi}`, `refs/heads/${escape}`]) {
    const { text } = await sendPush(remote, Buffer.concat([preamble([{ new: next, name }]), pack]));
    const [, reason] = text.split(`ng ${Buffer.from(name).toString('latin1')} `);
    expect(reason).toMatch(/^bad name: [\x20-\x7e]+\n/);
  }
  expect(await now()).toEqual(before);
});

test('a branch that moves between the lease and the push', async () => {
  const hooks = join(work.folder, '.git/hooks');
  mkdirSync(hooks, { recursive: true });
  // git runs it when it has read what the server has, and before it sends anything.
  writeFileSync(
    join(hooks, 'pre-push'),
    `#!/bin/sh\n[ -e moved ] && exit 0\ntouch moved\nexec git push --quiet ${remote} ${next}:refs/heads/main\n`,
    { mode: 0o755 },
  );
  const late = await commitFiles(work, { 'a.txt': 'late' });
  const pushed = await work.attempt([
    'push',
    `--force-with-lease=main:${commit}`,
    remote,
    `${late}:refs/heads/main`,
  ]);
  expect([pushed.code, pushed.stderr]).toEqual([1, expect.stringContaining('main (stale: expected')]);
  const { rows, objects } = await now();
  expect(JSON.stringify([rows, objects])).toContain(next);
  expect(JSON.stringify([rows, objects])).not.toContain(late);
});

test('a body that comes too slowly, or with two lengths', async () => {
  await begin({ SLUICE_IDLE_MS: '500', SLUICE_UPLOAD_MS: '1500' });
  const body = Buffer.concat([preamble([{ new: next, name: 'refs/heads/x' }]), pack]);
  const withLength = head(`Content-Length: ${body.length}`);
  const silence = /^HTTP\/1\.1 [^]*the client sent nothing for 500 ms/;
  const chunked = asChunks(body);
  await refuses({
    'silence in the list of refs': [() => exchange(withLength, [body.subarray(0, 30)]), silence],
    'silence in the pack': [() => exchange(withLength, [body.subarray(0, -30)]), silence],
    'a byte now and then': [
      () =>
        exchange(
          withLength,
          Array.from(body, (byte) => Buffer.from([byte])),
          20,
        ),
      /^HTTP\/1\.1 408 [^]*expected the whole request within 1500 ms/,
    ],
    'both a length and chunks': [
      () => exchange(head(`Content-Length: ${body.length}`, 'Transfer-Encoding: chunked'), chunked[1]),
      /^HTTP\/1\.1 400 /,
    ],
    'two lengths': [
      () => exchange(head('Content-Length: 4', `Content-Length: ${body.length}`), [body]),
      /^HTTP\/1\.1 400 /,
    ],
    'a transfer encoding that nobody knows': [
      () => exchange(head('Transfer-Encoding: gzip'), [body]),
      /^HTTP\/1\.1 400 /,
    ],
  });
  expect(await exchange(...chunked)).toContain('ok refs/heads/x');
});

function head(...headers: string[]): string {
  const type = 'application/x-git-receive-pack-request';
  const lines = ['Host: 127.0.0.1', 'Connection: close', `Content-Type: ${type}`, ...headers];
  return `POST /${repoId}.git/git-receive-pack HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`;
}

/** A request whose body is sent in chunks of 64 kB. */
function asChunks(body: Buffer): [head: string, parts: Buffer[]] {
  const parts: Buffer[] = [];
  for (let at = 0; at < body.length; at += 65_536) {
    const part = body.subarray(at, at + 65_536);
    parts.push(Buffer.concat([Buffer.from(`${part.length.toString(16)}\r\n`), part, Buffer.from('\r\n')]));
  }
  return [head('Transfer-Encoding: chunked'), [...parts, Buffer.from('0\r\n\r\n')]];
}

/**
 * Sends one part after the other, until there is an answer, and returns what the server had said when it ended the
 * connection.
 */
async function exchange(head: string, parts: readonly Buffer[], pauseMs = 0): Promise<string> {
  const { hostname, port } = new URL(remote);
  const socket = connect(Number(port), hostname);
  let answer = '';
  // The server may cut off who is still sending.
  socket.on('error', () => {});
  socket.on('data', (chunk) => (answer += chunk.toString('latin1')));
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  socket.write(head);
  for (const part of parts) {
    if (answer !== '' || socket.destroyed) break;
    if (!socket.write(part)) await Promise.race([once(socket, 'drain'), closed]);
    await Promise.race([setTimeout(pauseMs), closed]);
  }
  await closed;
  return answer;
}
