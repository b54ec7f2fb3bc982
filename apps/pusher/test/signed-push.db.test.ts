import { createHmac } from 'node:crypto';
import { globSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { createToken } from '@sluice/access';
import { loadServerKey, repoFolder } from '@sluice/ref-store';
import {
  commitFileAt,
  commitFiles,
  defineEffect,
  makeCertificate,
  makeKey,
  makeRepo,
  signingWith,
  verifiesOutside,
  type CertificateParts,
  type Git,
  type SigningKey,
} from '@sluice/testkit';
import { beforeEach, expect, test, vi } from 'vitest';
import { NONCE_SECONDS_MAX, nonceSeed } from '../src/git/certificate-nonce.ts';
import { packOf } from './pack-of.ts';
import { nonceOf, signedPreamble } from './push-certificate.ts';
import { EMPTY_PACK, reportOf, sendPush } from './raw-push.ts';
import { usePusher } from './use-pusher.ts';

const pusher = usePusher();

let url: string;
let repoId: string;
let remote: string;
let work: Git;
let commit: string;
let keys: Record<'admin' | 'alice' | 'robot' | 'gone' | 'stranger', SigningKey>;
let count = 0;

const MEMBERS = [
  ['admin', 'admin', false],
  ['alice', 'writer', false],
  ['robot', 'worker', false],
  ['gone', 'writer', true],
] as const;

/** A repository with members and one branch. */
beforeEach(async () => {
  ({ url } = await pusher.start());
  count += 1;
  repoId = `signed/r${count}`;
  remote = `${url}/${repoId}.git`;
  work = await makeRepo(join(pusher.folder, 'work'));
  commit = await commitFiles(work, { 'a.txt': 'one' });
  const key = (name: string): SigningKey => makeKey(pusher.folder, name);
  keys = {
    admin: key('admin'),
    alice: key('alice'),
    robot: key('robot'),
    gone: key('gone'),
    stranger: key('stranger'),
  };
  for (const [name, role, isRevoked] of MEMBERS) await setMember(name, role, isRevoked);
  const refs = MEMBERS.map(([name]) => `refs/meta/members/${name}`);
  await work(['push', '--quiet', remote, 'main', ...refs]);
});

async function setMember(name: keyof typeof keys, role: string, isRevoked: boolean): Promise<void> {
  const yaml = `role: ${role}\nrevoked: ${isRevoked}\nkeys:\n  - ${keys[name].publicKey}\n`;
  await commitFileAt(work, `refs/meta/members/${name}`, 'member.yaml', yaml);
}

async function setPolicy(attestation: Record<string, string>): Promise<void> {
  const rules = Object.entries(attestation).map(
    ([pattern, level]) => `  ${pattern}: {attestation: ${level}}\n`,
  );
  await commitFileAt(work, 'refs/meta/config', 'policy.yaml', `rules:\n${rules.join('')}`);
  expect((await pushSigned('admin', '+refs/meta/config')).stderr).toContain('remote: push ');
}

function pushSigned(name: keyof typeof keys, ...refspecs: string[]) {
  return work.attempt([...signingWith(keys[name]), 'push', '--signed', remote, ...refspecs]);
}

async function refs(): Promise<Record<string, string>> {
  const rows = await pusher.database.db
    .selectFrom('ref')
    .select(['name', 'oid'])
    .where('repo_id', '=', repoId)
    .where('name', 'not like', 'refs/meta/members/%')
    .execute();
  return Object.fromEntries(rows.map(({ name, oid }) => [name, oid]));
}

async function records(): Promise<number> {
  const rows = await pusher.database.db
    .selectFrom('op_record')
    .select('push_id')
    .where('repo_id', '=', repoId)
    .execute();
  return rows.length;
}

async function certificate(parts: Partial<CertificateParts> = {}): Promise<string> {
  return makeCertificate({
    pushee: remote,
    nonce: parts.nonce ?? (await nonceOf(remote)),
    commands: [{ new: commit, name: 'refs/heads/x' }],
    key: keys.alice,
    ...parts,
  });
}

async function sendSigned(text: string): Promise<{ report: string; all: string }> {
  const answer = await sendPush(remote, Buffer.concat([signedPreamble(text), EMPTY_PACK]));
  return { report: reportOf(answer), all: `${answer.status} ${answer.text}` };
}

test('a push signed by a member is recorded with its certificate, which verifies outside', async () => {
  await defineEffect(work, 'ci', 'on: [refs/heads/*]\nrun: make\n');
  expect((await pushSigned('admin', 'refs/meta/effects/ci')).code).toBe(0);
  const second = await commitFiles(work, { 'a.txt': 'two' });
  const pushed = await pushSigned('alice', 'main');
  expect([pushed.code, pushed.stderr]).toEqual([0, expect.stringContaining('remote: push ')]);
  expect((await refs())['refs/heads/main']).toBe(second);

  const record = await pusher.database.db
    .selectFrom('op_record')
    .select(['signer', 'cert_oid'])
    .where('repo_id', '=', repoId)
    .orderBy('seq', 'desc')
    .limit(1)
    .executeTakeFirstOrThrow();
  expect(record.signer).toBe('member:alice');
  const { bytes } = await pusher.database.db
    .selectFrom('small_object')
    .select('bytes')
    .where('repo_id', '=', repoId)
    .where('oid', '=', record.cert_oid!)
    .executeTakeFirstOrThrow();
  expect(verifiesOutside(bytes, keys.alice, pusher.folder)).toBe(true);
  expect(verifiesOutside(bytes, keys.admin, pusher.folder)).toBe(false);
  const effect = await pusher.database.db
    .selectFrom('effect_queue')
    .select('payload')
    .where('repo_id', '=', repoId)
    .executeTakeFirstOrThrow();
  expect(JSON.parse(effect.payload)).toMatchObject({ push: { signer: 'member:alice' } });
});

test('keys of other kinds, sha256 repositories and push options are signed alike', async () => {
  const rsa = makeKey(pusher.folder, 'rsa', 'rsa');
  const ecdsa = makeKey(pusher.folder, 'ecdsa', 'ecdsa');
  const other = await makeRepo(join(pusher.folder, 'sha256'), { objectFormat: 'sha256' });
  await commitFiles(other, { 'a.txt': 'one' });
  const yaml = `role: admin\nkeys:\n  - ${rsa.publicKey}\n  - ${ecdsa.publicKey}\n`;
  await commitFileAt(other, 'refs/meta/members/ada', 'member.yaml', yaml);
  const there = `${url}/_sha256/signed/wide${count}.git`;
  await other(['push', '--quiet', there, 'refs/meta/members/ada']);
  await other([...signingWith(rsa), 'push', '--quiet', '--signed', there, 'main']);
  await other([...signingWith(ecdsa), 'push', '-q', '--signed', '-o', 'ci.skip', there, 'main:refs/heads/b']);
});

test('a repository without members takes no signatures, and git finds that out by itself', async () => {
  const there = `${url}/signed/open${count}.git`;
  for (const round of ['main', 'main:refs/heads/b']) {
    const signed = await work.attempt([...signingWith(keys.alice), 'push', '--signed', there, round]);
    expect(signed.stderr).toContain('does not support --signed');
    await work([...signingWith(keys.alice), 'push', '--quiet', '--signed=if-asked', there, round]);
  }
  const raw = signedPreamble(await certificate({ pushee: there, nonce: 'none' }));
  const answer = await sendPush(there, Buffer.concat([raw, EMPTY_PACK]));
  expect(reportOf(answer)).toContain('ng refs/heads/x expected an unsigned push');
});

test.each([
  ['an unknown key', 'stranger', 'main:refs/heads/x', 'a key of nobody who is a member here'],
  ['a revoked key', 'gone', 'main:refs/heads/x', 'a key of gone, who was revoked'],
  [
    'a worker on a branch',
    'robot',
    'main:refs/heads/x',
    'signature of a writer, got that of robot, a worker',
  ],
  ['a writer on a definition', 'alice', 'refs/meta/effects/ci', 'of an admin, got that of alice, a writer'],
  [
    'a writer on a member',
    'alice',
    '+main:refs/meta/members/eve',
    'of an admin, got that of alice, a writer',
  ],
] as const)('%s is refused by stock git with its reason', async (_, name, refspec, reason) => {
  await defineEffect(work, 'ci', 'on: [refs/heads/*]\nrun: make\n');
  const before = [await refs(), await records()];
  const refused = await pushSigned(name, refspec);
  expect([refused.code === 0, refused.stderr]).toEqual([false, expect.stringContaining(reason)]);
  expect([await refs(), await records()]).toEqual(before);
});

test('a writer who adds a definition to a branch is refused whole', async () => {
  await defineEffect(work, 'ci', 'on: [refs/heads/*]\nrun: make\n');
  const refused = await pushSigned('alice', 'main:refs/heads/x', 'refs/meta/effects/ci');
  expect(refused.stderr).toMatch(/refs\/meta\/effects\/ci \(expected the signature of an admin/);
  expect(refused.stderr).toMatch(/main -> x \(not applied: another ref/);
  expect(Object.keys(await refs())).toEqual(['refs/heads/main']);
});

test('a certificate that was altered or made for something else is refused', async () => {
  const fresh = await nonceOf(remote);
  const cases: [string, string, string][] = [
    [
      'another repository',
      await certificate({ pushee: `${url}/signed/other.git` }),
      'is for another repository',
    ],
    [
      'a path that only ends alike',
      await certificate({ pushee: `${url}/x/${repoId}.git` }),
      'is for another repository',
    ],
    ['no URL', await certificate({ pushee: 'nowhere' }), 'is for another repository'],
    [
      'a ref put in place of the signed one',
      (await certificate()).replace('heads/x', 'heads/y'),
      'not one over this push certificate',
    ],
    ['a key put in place of the signer', await certificate({ key: keys.stranger }), 'a key of nobody'],
    ['another namespace', await certificate({ namespace: 'file' }), 'not one over this push certificate'],
    [
      'options that were not signed',
      await certificate({ pushOptions: ['ci.skip'] }),
      'push options are not those',
    ],
    [
      'an invented nonce',
      await certificate({ nonce: fresh.replace(/.$/, (end) => (end === '0' ? '1' : '0')) }),
      'not made for this repository on this server',
    ],
    ['no nonce', (await certificate()).replace(/^nonce .*\n/m, ''), 'with the nonce of this server'],
    [
      'two signatures',
      (await certificate()).replace(/(-----BEGIN[^]*)$/, '$1$1'),
      'with one signature, got several',
    ],
    [
      'a marker in front',
      (await certificate()).replace('nonce ', '-----BEGIN PGP MESSAGE-----\nnonce '),
      'with one signature, got several',
    ],
    ['no signature', (await certificate()).replace(/-----BEGIN[^]*$/, ''), 'with one signature, got none'],
    [
      'text after the signature',
      `${await certificate()}${'0'.repeat(40)} ${commit} refs/heads/y\n`,
      'ends with an SSH signature',
    ],
    ['NUL', (await certificate()).replace('heads/x', 'heads/\0'), 'without NUL'],
  ];
  for (const [what, bad, reason] of cases) {
    expect([what, (await sendSigned(bad)).all]).toEqual([what, expect.stringContaining(reason)]);
  }
  expect(Object.keys(await refs())).toEqual(['refs/heads/main']);
  expect(await records()).toBe(1);
  expect((await sendSigned(await certificate())).report).toContain('ok refs/heads/x');
});

test("another repository's nonce and one that has expired are refused, by git's own reading", async () => {
  const other = `${url}/signed/second${count}.git`;
  await work(['push', '--quiet', other, 'refs/meta/members/admin']);
  const foreign = await sendSigned(await certificate({ nonce: await nonceOf(other) }));
  expect(foreign.all).toContain('was not made for this repository on this server');
  expect(foreign.report).toContain('ng refs/heads/x');

  const seed = nonceSeed(await loadServerKey(join(pusher.folder, 'data', 'server-key.pem')));
  const folder = repoFolder(join(pusher.folder, 'data'), repoId, 'sha1');
  const nonceAt = (seconds: number): string =>
    `${seconds}-${createHmac('sha1', `${folder}:${seconds}`).update(seed).digest('hex')}`;
  const shown = await nonceOf(remote);
  const now = Number(shown.split('-')[0]);
  expect(nonceAt(now)).toBe(shown);
  const expired = await sendSigned(await certificate({ nonce: nonceAt(now - NONCE_SECONDS_MAX - 60) }));
  expect(expired.all).toContain(`older than ${NONCE_SECONDS_MAX} seconds; push again`);
  expect(Object.keys(await refs())).toEqual(['refs/heads/main']);
  expect((await sendSigned(await certificate({ nonce: nonceAt(now - 60) }))).report).toContain(
    'ok refs/heads/x',
  );
});

test('a certificate counts once', async () => {
  const once = await certificate();
  expect((await sendSigned(once)).report).toContain('ok refs/heads/x');
  expect((await pushSigned('alice', ':refs/heads/x')).code).toBe(0);
  // The same text with another spelling of its signature is another certificate to git, and no new consent.
  const respelled = once.replace(
    /^([A-Za-z0-9+/]{70})\n/m,
    (_, line: string) => `${line.slice(0, 35)}\n${line.slice(35)}\n`,
  );
  expect(respelled).not.toBe(once);
  for (const again of [once, respelled])
    expect((await sendSigned(again)).report).toContain(
      'ng refs/heads/x the push certificate was used before',
    );
  expect(Object.keys(await refs())).toEqual(['refs/heads/main']);
});

test('10 MB of certificate, and refs beside the signed ones, are refused before git starts', async () => {
  const long = (await certificate()).replace(
    'nonce ',
    `pusher ${'x'.repeat(1000)}\n`.repeat(10_000) + 'nonce ',
  );
  expect((await sendSigned(long)).all).toContain('expected a list of refs of at most 2097152 bytes');
  const preamble = signedPreamble(await certificate());
  const line = `${'0'.repeat(40)} ${commit} refs/heads/unsigned`;
  const packet = Buffer.from((line.length + 4).toString(16).padStart(4, '0') + line);
  const body = Buffer.concat([preamble.subarray(0, -4), packet, preamble.subarray(-4), EMPTY_PACK]);
  expect(await sendPush(remote, body)).toMatchObject({ status: 400 });
  expect(
    await sendPush(remote, Buffer.concat([preamble.subarray(0, -22), Buffer.from('0000')])),
  ).toMatchObject({
    status: 400,
  });
  expect(Object.keys(await refs())).toEqual(['refs/heads/main']);
});

test('the policy decides what has to be signed, at the strictest level of all refs of a push', async () => {
  await work(['push', '--quiet', remote, 'main:refs/heads/unsigned']);
  const unsigned = await work.attempt(['push', remote, 'main:refs/meta/effects/ci']);
  expect(unsigned.stderr).toContain('expected a signed push: git push --signed');
  await setPolicy({ 'refs/heads/**': 'required', 'refs/notes/*': 'off' });
  await work(['push', '--quiet', remote, 'main:refs/notes/a']);
  const mixed = await work.attempt(['push', remote, 'main:refs/notes/b', 'main:refs/heads/b']);
  expect(mixed.stderr).toContain('expected a signed push');
  expect((await pushSigned('alice', 'main:refs/notes/b', 'main:refs/heads/b')).code).toBe(0);
  // Where signatures are off nobody looks at them, and none is recorded.
  expect((await pushSigned('stranger', 'main:refs/notes/c')).code).toBe(0);
  const record = await pusher.database.db
    .selectFrom('op_record')
    .select(['signer', 'cert_oid'])
    .where('repo_id', '=', repoId)
    .orderBy('seq', 'desc')
    .limit(1)
    .executeTakeFirstOrThrow();
  expect(record).toEqual({ signer: null, cert_oid: null });
});

test('members and policies that mean nothing are refused, and so is the deletion of a member', async () => {
  const bad: [string, string, string, string][] = [
    [
      'refs/meta/members/bob',
      'member.yaml',
      'role: boss\nkeys: []\n',
      'expected admin, writer, worker, got "boss"',
    ],
    ['refs/meta/members/bob', 'other.yaml', 'role: admin\n', 'expected a file member.yaml in the commit'],
    ['refs/meta/members/a/b', 'member.yaml', 'role: admin\n', 'with one segment'],
    ['refs/meta/config', 'policy.yaml', 'rules: all\n', 'policy.yaml:1:8: expected a mapping'],
  ];
  for (const [ref, file, yaml, reason] of bad) {
    await commitFileAt(work, ref, file, yaml);
    expect((await pushSigned('admin', ref)).stderr).toContain(reason);
    await work(['update-ref', '-d', ref]);
  }
  expect((await pushSigned('admin', ':refs/meta/members/alice')).stderr).toContain('a member is not deleted');
});

test('first members without an admin are refused, since nobody could change anything after them', async () => {
  const other = remote.replace(repoId, `${repoId}-first`);
  const first = (...refspecs: string[]) => work.attempt(['push', other, ...refspecs]);
  expect((await first('main')).code).toBe(0);
  await setMember('admin', 'admin', true);
  const alone = await first('refs/meta/members/alice', 'refs/meta/members/admin');
  expect(alone.stderr.match(/expected an admin among the first members/g)).toHaveLength(2);
  await setMember('admin', 'admin', false);
  expect((await first('refs/meta/members/alice', 'refs/meta/members/admin')).code).toBe(0);
});

test('without an admin among its members a repository admits nobody but an admin of the server', async () => {
  await setMember('admin', 'admin', true);
  const last = await pushSigned('admin', '+refs/meta/members/admin');
  expect(last.stderr).toContain('expected an admin with a key that counts among the members after this push');
  // As it was taken by servers of before.
  await work(['push', '--quiet', remote, 'refs/meta/members/admin:refs/x/admin']);
  const { db } = pusher.database;
  const oid = await work(['rev-parse', 'refs/meta/members/admin']);
  const its = db.updateTable('ref').set({ oid }).where('repo_id', '=', repoId);
  await its.where('name', '=', 'refs/meta/members/admin').execute();
  const reason = 'nobody can push here: no member is an admin any more';
  expect((await pushSigned('alice', 'main:refs/heads/x')).stderr).toContain(reason);
  expect((await work.attempt(['push', remote, 'main:refs/heads/x'])).stderr).toContain(reason);

  const accounts = await pusher.start({ SLUICE_ACCOUNTS: 'required' });
  const at = async (repoPattern: string): Promise<string> => {
    const scopes = ['admin'] as const;
    const made = await createToken(pusher.database.db, { name: 'op', repoPattern, scopes, expiresInDays: 1 });
    return `${accounts.url.replace('//', `//op:${made.token}@`)}/${repoId}.git`;
  };
  await setMember('admin', 'admin', false);
  await setMember('stranger', 'admin', false);
  const repair = 'refs/meta/members/stranger';
  expect((await work.attempt(['push', await at('signed/*'), repair])).stderr).toContain(reason);
  expect((await work.attempt(['push', await at('*'), 'main:refs/heads/x'])).stderr).toContain(reason);
  const back = await work.attempt(['push', await at('*'), '+refs/meta/members/admin']);
  expect(back.stderr).toContain('nobody comes back under the name of a member who was revoked');
  await work(['push', '--quiet', await at('*'), repair]);
  expect((await pushSigned('alice', 'main:refs/heads/x')).code).toBe(0);
});

test('a member who is revoked while a push is under way does not get it committed', async () => {
  const second = await commitFiles(work, { 'b.txt': 'two' });
  const signed = await certificate({ commands: [{ new: second, name: 'refs/heads/late' }] });
  const body = Buffer.concat([signedPreamble(signed), await packOf(work, second)]);
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const sending = request(`${remote}/git-receive-pack`, {
    method: 'POST',
    headers: { 'content-type': 'application/x-git-receive-pack-request' },
    agent: false,
  });
  sending.on('error', reject);
  sending.on('response', (response) => void text(response).then(resolve, reject));
  sending.write(body.subarray(0, -10));
  // Git unpacks by now, so the push was let in.
  const quarantine = `${pusher.folder}/data/repos/*/*/objects/tmp_objdir-incoming-*`;
  await vi.waitFor(() => expect(globSync(quarantine)).toHaveLength(1), { timeout: 20_000, interval: 20 });
  await setMember('alice', 'writer', true);
  expect((await pushSigned('admin', '+refs/meta/members/alice')).code).toBe(0);
  sending.end(body.subarray(-10));
  expect(await promise).toContain(
    'ng refs/heads/late the push is signed with a key of alice, who was revoked',
  );
  expect(Object.keys(await refs())).toEqual(['refs/heads/main']);
});
