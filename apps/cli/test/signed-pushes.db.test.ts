import { join } from 'node:path';
import { table } from '@sluice/db';
import {
  commitPush,
  loadServerKey,
  lockRepo,
  registerServerKey,
  repoFolder,
  type CommitPushOptions,
  type ServerKey,
} from '@sluice/ref-store';
import {
  commitFileAt,
  gitIn,
  makeCertificate,
  makeKey,
  makeTempFolder,
  useTempFolder,
  useTestDatabase,
  type CertificateParts,
  type Git,
  type SigningKey,
} from '@sluice/testkit';
import { sql } from 'kysely';
import { beforeAll, beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { runCli, type CliResult } from './run-cli.ts';

const database = useTestDatabase();
const temporary = useTempFolder();
const MAIN = 'refs/heads/main';
const path = process.env['PATH'];
const oid = (digit: string): string => digit.repeat(40);

let server: ServerKey;
beforeAll(async () => {
  using folder = makeTempFolder();
  server = await loadServerKey(join(folder.path, 'key'));
  await registerServerKey(database.db, server);
});

let repoId: string;
let git: Git;
let alice: SigningKey;
let bob: SigningKey;
let count = 0;

/** A repository with two members, on the disk of the pusher. */
beforeEach(async () => {
  count += 1;
  repoId = `signed/r${count}`;
  const gitDir = repoFolder(dataDir(), repoId, 'sha1');
  await gitIn(temporary.path)(['init', '--quiet', '--bare', gitDir]);
  git = gitIn(gitDir);
  [alice, bob] = [makeKey(temporary.path, 'alice'), makeKey(temporary.path, 'bob')];
  await setMember('bob', bob);
  await setMember('alice', alice);
});

const dataDir = (): string => join(temporary.path, 'data');

async function setMember(
  name: string,
  key: SigningKey,
  { role = 'writer', revoked = false } = {},
): Promise<string> {
  const ref = `refs/meta/members/${name}`;
  const to = await commitFileAt(
    git,
    ref,
    'member.yaml',
    `role: ${role}\nkeys: [${key.publicKey}]\nrevoked: ${revoked}\n`,
  );
  return await push({ edits: [{ name: ref, expect: 'any', to }], signer: null });
}

type PushParts = Omit<CommitPushOptions, 'repo' | 'key'>;

async function push(parts: PushParts): Promise<string> {
  return await database.db.transaction().execute(async (trx) => {
    const repo = await lockRepo(trx, { repoId, create: { objectFormat: 'sha1' } });
    const outcome = await commitPush(trx, { ...parts, key: server, repo: repo! });
    if (outcome.status !== 'committed') throw new Error(outcome.status);
    return outcome.pushId;
  });
}

type SignedParts = Partial<Omit<PushParts, 'certificate'>> & {
  certificate?: Partial<CertificateParts> & { alter?: (text: string) => string };
};

/** A push of the main branch as alice's, with a certificate by her that says so; or with something in it changed. */
async function pushSigned(to: string, { certificate, ...more }: SignedParts = {}): Promise<string> {
  const before = await database.db
    .selectFrom('ref')
    .select('oid')
    .where('repo_id', '=', repoId)
    .where('name', '=', MAIN)
    .executeTakeFirst();
  const { alter = (text: string) => text, ...parts } = certificate ?? {};
  const text = makeCertificate({
    pushee: `http://host/${repoId}.git`,
    nonce: '1-ab',
    commands: [{ ...(before === undefined ? {} : { old: before.oid }), new: to, name: MAIN }],
    key: alice,
    ...parts,
  });
  return await push({
    edits: [{ name: MAIN, expect: 'any', to }],
    signer: 'member:alice',
    certificate: Buffer.from(alter(text)),
    ...more,
  });
}

function verify(env: Record<string, string | undefined> = {}): Promise<CliResult> {
  return runCli(['op', 'verify', repoId], {
    env: { DATABASE_URL: database.url, SLUICE_DATA_DIR: dataDir(), PATH: path, ...env },
  });
}

async function finds(pushId: string, problem: string): Promise<void> {
  const { code, stdout } = await verify();
  expect([code, stdout.split('\n')[1]]).toEqual([1, `  push ${pushId}: ${problem}`]);
}

test('what members signed verifies, also after a key was taken away or its owner revoked', async () => {
  await pushSigned(oid('1'), { pushOptions: ['a', 'b'], certificate: { pushOptions: ['a', 'b'] } });
  // As records were before they had a place for push options.
  await pushSigned(oid('2'), { certificate: { pushOptions: ['ci.skip'] } });
  // A ref that was like that already is signed, and no edit.
  await pushSigned(oid('3'), {
    certificate: {
      commands: [{ old: oid('2'), new: oid('3'), name: MAIN }, { name: 'refs/heads/none' }],
    },
  });
  const second = makeKey(temporary.path, 'second');
  await setMember('alice', second);
  await pushSigned(oid('4'), { certificate: { key: second } });
  await setMember('alice', second, { revoked: true });
  expect(await verify()).toEqual({ code: 0, stdout: `${repoId}: 8 pushes, all fits\n`, stderr: '' });
});

test('keys of other kinds, and a certificate that is shown as it was made', async () => {
  const rsa = makeKey(temporary.path, 'rsa', 'rsa');
  await setMember('alice', rsa);
  const pushId = await pushSigned(oid('1'), { certificate: { key: rsa } });
  expect(await verify()).toMatchObject({ code: 0 });
  const show = (...args: string[]) =>
    runCli(['op', 'show', pushId, ...args], { env: { DATABASE_URL: database.url } });
  expect((await show('--certificate')).stdout).toMatch(
    /^certificate version 0\.1\n[^]*-----END SSH SIGNATURE-----\n$/,
  );
  expect((await show('--edits')).stdout).toBe(`${oid('0')} ${oid('1')} ${MAIN}\n`);
  expect(await show('--edits', '--raw')).toMatchObject({ code: 2, stdout: '' });
});

test('a terminal is not shown what it would obey of a certificate; a file gets it as it is', async () => {
  const title = '\u001b]0;title\u0007';
  const pushId = await pushSigned(oid('1'), {
    certificate: { alter: (text) => text.replace('pushee ', `pushee ${title}`) },
  });
  const show = async (isTTY: boolean): Promise<string> => {
    const args = ['op', 'show', pushId, '--certificate'];
    return (await runCli(args, { isTTY, env: { DATABASE_URL: database.url } })).stdout;
  };
  expect(await show(false)).toContain(`\npushee ${title}http://host/`);
  expect(await show(true)).toContain('\npushee http://host/');
});

test.each<[string, (pushId: string) => Promise<unknown>]>([
  [
    'changed in one byte',
    (pushId) =>
      sql`update ${table('small_object')} set bytes = set_byte(bytes, 40, get_byte(bytes, 40) # 1)
           where oid = (select cert_oid from ${table('op_record')} where push_id = ${pushId})`.execute(
        database.db,
      ),
  ],
  [
    'removed',
    (pushId) =>
      sql`delete from ${table('small_object')}
           where oid = (select cert_oid from ${table('op_record')} where push_id = ${pushId})`.execute(
        database.db,
      ),
  ],
])('a certificate that was %s is found', async (_, tamper) => {
  const pushId = await pushSigned(oid('1'));
  await pushSigned(oid('2'));
  await tamper(pushId);
  await finds(pushId, 'its certificate is not stored, or was changed');
  const shown = await runCli(['op', 'show', pushId, '--certificate'], {
    env: { DATABASE_URL: database.url },
  });
  expect(shown).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringContaining('is gone, or was changed'),
  });
});

// What nobody but the holder of the server's key can put into a record.
test.each<[string, SignedParts, string]>([
  [
    'other refs',
    { edits: [{ name: 'refs/heads/evil', expect: 'any', to: oid('1') }] },
    'its certificate is over other edits than its own',
  ],
  [
    'another value',
    { certificate: { commands: [{ new: oid('2'), name: MAIN }] } },
    'its certificate is over other edits than its own',
  ],
  [
    'a ref that was left out',
    {
      certificate: {
        commands: [
          { new: oid('1'), name: MAIN },
          { new: oid('1'), name: 'refs/heads/left-out' },
        ],
      },
    },
    'its certificate is over other edits than its own',
  ],
  [
    'other push options',
    { pushOptions: ['a'], certificate: { pushOptions: ['b'] } },
    'its push options are not those that were signed',
  ],
  [
    'a text that was changed after it was signed',
    { certificate: { alter: (text) => text.replace('pusher key', 'pusher kez') } },
    'its certificate is not signed with the key that it names',
  ],
  [
    'a signature for something else',
    { certificate: { namespace: 'file' } },
    'its certificate is not signed with the key that it names',
  ],
  [
    'no certificate',
    { certificate: { alter: () => 'x' } },
    'its certificate cannot be read: expected a push certificate with one signature, got none',
  ],
  ['somebody else', { signer: 'member:carol' }, 'it is signed with a key that was none of carol then'],
  ['nobody', { signer: 'token:alice' }, 'it has a certificate, but names no member who signed'],
])('a record that says alice signed it, with %s, is found', async (_, more, problem) => {
  await finds(await pushSigned(oid('1'), more), problem);
});

test('a signature that came too early or too late is found, and one that is only claimed', async () => {
  const dave = makeKey(temporary.path, 'dave');
  const signer = 'member:dave';
  const early = await pushSigned(oid('1'), { signer, certificate: { key: dave } });
  await setMember('dave', dave);
  await pushSigned(oid('2'), { signer, certificate: { key: dave } });
  await setMember('dave', dave, { revoked: true });
  const late = await pushSigned(oid('3'), { signer, certificate: { key: dave } });
  const claimed = await push({ edits: [{ name: MAIN, expect: 'any', to: oid('4') }], signer });
  const { code, stdout } = await verify();
  expect([code, stdout.split('\n').slice(1, -1)]).toEqual([
    1,
    [
      `  push ${early}: it is signed with a key that was none of dave then`,
      `  push ${late}: it is signed with a key of dave, who was revoked by then`,
      `  push ${claimed}: it names a member who signed, but no certificate`,
    ],
  ]);
});

test('a signature for what the policy of its time kept from the role of its signer is found', async () => {
  const [CONFIG, LOCKED] = ['refs/meta/config', 'refs/heads/locked/a'];
  const ada = makeKey(temporary.path, 'ada');
  await setMember('ada', ada, { role: 'admin' });
  const sign = (key: SigningKey, signer: string, name: string, [old, to]: [string | null, string | null]) =>
    pushSigned('', {
      signer: `member:${signer}`,
      edits: [{ name, expect: 'any', to }],
      certificate: {
        key,
        commands: [{ ...(old === null ? {} : { old }), ...(to === null ? {} : { new: to }), name }],
      },
    });
  const byAlice = (name: string, edit: [string | null, string | null]) => sign(alice, 'alice', name, edit);
  const byAda = (name: string, edit: [string | null, string | null]) => sign(ada, 'ada', name, edit);

  await byAlice(LOCKED, [null, oid('1')]);
  const policy = 'rules:\n  refs/heads/locked/*: { roles: [admin], delete: false }\n';
  const first = await commitFileAt(git, CONFIG, 'policy.yaml', policy);
  await byAda(CONFIG, [null, first]);
  const overReach = await byAlice(LOCKED, [oid('1'), oid('2')]);
  await byAda(LOCKED, [oid('2'), oid('3')]);
  const deletion = await byAda(LOCKED, [oid('3'), null]);
  // Who gives a right to everybody needs it from the policy before.
  const second = await commitFileAt(git, CONFIG, 'policy.yaml', 'rules: {}\n');
  const selfService = await byAlice(CONFIG, [first, second]);
  await byAlice(LOCKED, [null, oid('4')]);
  await byAlice(LOCKED, [oid('4'), null]);
  const { code, stdout } = await verify();
  expect([code, stdout.split('\n').slice(1, -1)]).toEqual([
    1,
    [
      `  push ${overReach}: its signer had the role writer then, and ${LOCKED} was for admin`,
      `  push ${deletion}: it deletes ${LOCKED}, which nobody might do then`,
      `  push ${selfService}: its signer had the role writer then, and ${CONFIG} was for admin`,
    ],
  ]);
});

test('a push that nobody signed is found where the policy of its time asked for a signature', async () => {
  const ada = makeKey(temporary.path, 'ada');
  const unsigned = (name: string, to: string | null, signer = 'token:ci') =>
    push({ edits: [{ name, expect: 'any', to }], signer });
  const CONFIG = 'refs/meta/config';
  // Until there is an admin, nobody could sign what only admins may push.
  await setMember('ada', ada, { role: 'admin' });
  await unsigned(MAIN, oid('1'));
  const policy = await commitFileAt(
    git,
    CONFIG,
    'policy.yaml',
    'rules:\n  refs/heads/main: { attestation: required }\n',
  );
  const config = await unsigned(CONFIG, policy);
  const main = await unsigned(MAIN, oid('2'));
  await unsigned('refs/heads/other', oid('2'));
  await unsigned('refs/meta/results/ci/1', oid('3'), 'effect:1');
  await unsigned(MAIN, null, 'operator');
  const evil = await setMember('evil', bob, { role: 'admin' });
  const taken = await unsigned('refs/meta/members/ada', null, 'operator');
  const { code, stdout } = await verify();
  expect([code, stdout.split('\n').slice(1, -1)]).toEqual([
    1,
    [
      `  push ${config}: nobody signed it, and ${CONFIG} needed a signature then`,
      `  push ${main}: nobody signed it, and ${MAIN} needed a signature then`,
      `  push ${evil}: nobody signed it, and refs/meta/members/evil needed a signature then`,
      `  push ${taken}: nobody signed it, and refs/meta/members/ada needed a signature then`,
    ],
  ]);
});

test('where no admin could sign, members and policy were repaired unsigned, and nothing else', async () => {
  const ada = makeKey(temporary.path, 'ada');
  const cutOff = { ...ada, publicKey: ada.publicKey.split(' ').slice(0, 2).join(' ').slice(0, -4) };
  const unsigned = (name: string, to: string) =>
    push({ edits: [{ name, expect: 'any', to }], signer: 'token:root' });
  await setMember('ada', cutOff, { role: 'admin' });
  const effect = await unsigned('refs/meta/effects/ci', oid('1'));
  const policy = await commitFileAt(git, 'refs/meta/config', 'policy.yaml', 'rules: {}\n');
  await unsigned('refs/meta/config', policy);
  await setMember('ada', ada, { role: 'admin' });
  const late = await setMember('ada', cutOff, { role: 'admin' });
  const { code, stdout } = await verify();
  expect([code, stdout.split('\n').slice(1, -1)]).toEqual([
    1,
    [
      `  push ${effect}: nobody signed it, and refs/meta/effects/ci needed a signature then`,
      `  push ${late}: nobody signed it, and refs/meta/members/ada needed a signature then`,
    ],
  ]);
});

test('where the policy of the time cannot be read, it does not say that all is well', async () => {
  await push({ edits: [{ name: 'refs/meta/config', expect: 'any', to: oid('9') }], signer: null });
  await pushSigned(oid('1'));
  expect(await verify()).toMatchObject({
    code: 1,
    stdout: `${repoId}: 4 pushes\n  1 push under members or a policy that cannot be read\n`,
  });
});

test('where the members cannot be read, or ssh-keygen is missing, it does not say that all is well', async () => {
  await pushSigned(oid('1'));
  const elsewhere = await verify({ SLUICE_DATA_DIR: join(temporary.path, 'elsewhere') });
  expect(elsewhere).toMatchObject({
    code: 1,
    stdout: `${repoId}: 3 pushes\n  2 pushes under members or a policy that cannot be read\n`,
    stderr: expect.stringMatching(
      /^sluice: the members or policies of 1 of 1 repository cannot be read[^\n]*\n {2}next: Set SLUICE_DATA_DIR /,
    ),
  });
  vi.stubEnv('PATH', '/nonexistent');
  onTestFinished(() => void vi.unstubAllEnvs());
  expect(await verify({ PATH: path })).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringMatching(/^sluice: ssh-keygen: expected [^\n]+ENOENT\.\n {2}next: Install OpenSSH/),
  });
});
