import { spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gitIn, makeTempFolder } from '@sluice/testkit';
import { beforeAll, describe, expect, test } from 'vitest';
import { newKey, oid } from '../test/push-fixture.ts';
import { hashObject } from './hash-object.ts';
import { buildOpRecord, type OpRecord } from './op-record.ts';
import type { ObjectFormat } from './oid.ts';
import type { ServerKey } from './server-key.ts';
import { readOpRecord } from './read-op-record.ts';
import { sshKeygenVerifies } from './ssh-keygen.ts';
import { verifyOpRecord } from './verify-op-record.ts';

let key: ServerKey;
beforeAll(async () => {
  key = await newKey();
});

const PUSH_OPTIONS = ['ci.skip', ' key=a: value ', 'Seq: 9', 'caf\u00e9', ''];

function makeChain(objectFormat: ObjectFormat, length: number): OpRecord[] {
  const records: OpRecord[] = [];
  for (let index = 0; index < length; index++) {
    records.push(
      buildOpRecord({
        repoId: 'acme/api',
        objectFormat,
        seq: BigInt(index + 1),
        parent: records.at(-1)?.pushId ?? null,
        edits: [
          {
            name: 'refs/heads/main',
            oldOid: index === 0 ? null : oid(index, objectFormat),
            newOid: oid(index + 1, objectFormat),
          },
          { name: 'refs/heads/caf\u00e9', oldOid: oid(1, objectFormat), newOid: null },
        ],
        signer: index === 0 ? null : 'Zo\u00eb',
        seconds: 1_764_540_000n + BigInt(index),
        key,
        ...(index === 2 ? { noEffects: 'asked for it', pushOptions: PUSH_OPTIONS } : {}),
        ...(index === 1 ? { certificate: Buffer.from('certificate version 0.1\n\xff', 'latin1') } : {}),
      }),
    );
  }
  return records;
}

describe.each<ObjectFormat>(['sha1', 'sha256'])('a chain of op records in a %s repository', (format) => {
  test('is what git reads, checks and verifies', async () => {
    using folder = makeTempFolder();
    const bare = join(folder.path, 'repo.git');
    const signers = join(folder.path, 'allowed-signers');
    await writeFile(signers, `sluice@localhost ${key.publicKey}\n`);
    await gitIn(folder.path)(['init', '-q', '--bare', `--object-format=${format}`, bare]);
    const git = gitIn(bare);
    await git(['config', 'gpg.ssh.allowedSignersFile', signers]);
    const chain = makeChain(format, 3);
    for (const { objects } of chain) {
      for (const { kind, bytes, oid: id } of objects) {
        expect(await git(['hash-object', '-w', '-t', kind, '--stdin'], { input: bytes })).toBe(id);
      }
    }
    const tip = chain.at(-1)!.pushId;
    await git(['update-ref', 'refs/meta/ops', tip]);
    await git(['fsck', '--strict', '--no-dangling']);
    expect((await git(['rev-list', tip])).split('\n')).toEqual(
      chain.map((record) => record.pushId).toReversed(),
    );
    expect((await git(['log', '--format=%G? %GS %GK', tip])).split('\n')).toEqual(
      Array.from({ length: 3 }, () => `G sluice@localhost ${key.fingerprint}`),
    );
    for (const { pushId } of chain) await git(['verify-commit', pushId]);
    expect(`${await git(['show', `${tip}:edits`])}\n`).toBe(
      `${oid(1, format)} ${oid(0, format)} refs/heads/caf\u00e9\n${oid(2, format)} ${oid(3, format)} refs/heads/main\n`,
    );
    expect(await git(['rev-parse', `${chain[1]!.pushId}:certificate`])).toBe(chain[1]!.certOid);
    expect((await git(['show', '-s', '--format=%an <%ae> %at %B', tip])).trim()).toBe(
      'Sluice <sluice@localhost> 1764540002 Push 3: 2 refs\n\nRepo: acme/api\nSeq: 3\nPushed-by: Zo\u00eb\nNo-effects: asked for it\nPush-option: ci.skip\nPush-option:  key=a: value \nPush-option: Seq: 9\nPush-option: caf\u00e9\nPush-option:',
    );
  });

  test('has signatures that ssh-keygen verifies', async () => {
    using folder = makeTempFolder();
    const record = makeChain(format, 1)[0]!;
    const text = record.body.toString();
    const payload = text.replace(/\ngpgsig(-sha256)? [^\n]*(\n [^\n]*)*/, '');
    await writeFile(join(folder.path, 'signers'), `sluice@localhost ${key.publicKey}\n`);
    await writeFile(join(folder.path, 'signature'), record.signature);
    const verify = (input: string): number | null =>
      spawnSync(
        'ssh-keygen',
        [
          '-Y',
          'verify',
          '-n',
          'git',
          '-I',
          'sluice@localhost',
          '-f',
          join(folder.path, 'signers'),
          '-s',
          join(folder.path, 'signature'),
        ],
        { input, stdio: ['pipe', 'ignore', 'ignore'] },
      ).status;
    expect(payload).not.toBe(text);
    expect(verify(payload)).toBe(0);
    expect(verify(payload.replace('Seq: 1', 'Seq: 2'))).not.toBe(0);
  });

  test('is verified without git', async () => {
    const chain = makeChain(format, 3);
    for (const [index, { pushId, body, objects }] of chain.entries()) {
      expect(await verifyOpRecord({ pushId, body, trustedKeys: [`${key.publicKey} a comment`] })).toEqual({
        status: 'valid',
        publicKey: key.publicKey,
        parent: chain[index - 1]?.pushId ?? null,
        tree: objects.find((object) => object.kind === 'tree')!.oid,
        repoId: 'acme/api',
        seq: BigInt(index + 1),
        signer: index === 0 ? null : 'Zo\u00eb',
        seconds: 1_764_540_000n + BigInt(index),
        noEffects: index === 2 ? 'asked for it' : null,
        pushOptions: index === 2 ? PUSH_OPTIONS : [],
        signature: chain[index]!.signature,
        signed: expect.any(Buffer),
      });
    }
  });

  test('does not survive a change of any byte', { timeout: 300_000 }, async () => {
    const { body } = makeChain(format, 2)[1]!;
    const survives = async (offset: number): Promise<boolean> => {
      const changed = Buffer.from(body);
      changed[offset]! ^= 1;
      // Under its own hash, so that only the signature can tell.
      const pushId = hashObject(format, 'commit', changed);
      const check = await verifyOpRecord({ pushId, body: changed, trustedKeys: [key.publicKey] });
      return check.status === 'valid';
    };
    const offsets = [...body.keys()];
    const survivors: number[] = [];
    // A process for most bytes, and not all of them at once.
    const checkRest = async (): Promise<void> => {
      for (let next = offsets.pop(); next !== undefined; next = offsets.pop())
        if (await survives(next)) survivors.push(next);
    };
    await Promise.all(Array.from({ length: 8 }, checkRest));
    expect(survivors).toEqual([]);
  });

  test('has one spelling of its signature, where ssh-keygen takes others', async () => {
    const { body, signature } = makeChain(format, 1)[0]!;
    const blob = Buffer.from(signature.split('\n').slice(1, -1).join(''), 'base64');
    // After the key and the namespace come reserved bytes, which have a length of 0.
    const reserved = blob.indexOf(Buffer.from('\0\0\0\x03git')) + 7;
    const longer = Buffer.concat([
      blob.subarray(0, reserved),
      Buffer.from('\0\0\0\x01x'),
      blob.subarray(reserved + 4),
    ]);
    const lines = longer.toString('base64').match(/.{1,70}/g) ?? [];
    const others = [
      signature.replace('\nU1N', '\n U1N'),
      `${signature}\nmore`,
      ['-----BEGIN SSH SIGNATURE-----', ...lines, '-----END SSH SIGNATURE-----'].join('\n'),
    ];
    const inHeader = (text: string): string => text.replaceAll('\n', '\n ');
    const record = readOpRecord({ pushId: hashObject(format, 'commit', body), body });
    if (typeof record === 'string') throw new Error(record);
    for (const other of others) {
      expect(await sshKeygenVerifies({ signed: record.signed, signature: other }, key.publicKey)).toBe(true);
      const changed = Buffer.from(body.toString().replace(inHeader(signature), inHeader(other)));
      expect(changed).not.toEqual(body);
      expect(readOpRecord({ pushId: hashObject(format, 'commit', changed), body: changed })).toBe(
        'the signature of the record cannot be read',
      );
    }
  });
});

test('tampering is named', async () => {
  const record = makeChain('sha1', 1)[0]!;
  const { pushId, body } = record;
  const trustedKeys = [key.publicKey];
  const check = (bytes: Buffer, keys = trustedKeys, id = hashObject('sha1', 'commit', bytes)) =>
    verifyOpRecord({ pushId: id, body: bytes, trustedKeys: keys });
  const edited = (from: string | RegExp, to: string): Buffer =>
    Buffer.from(body.toString().replace(from, to));
  expect(await check(edited('Seq: 1', 'Seq: 2'), trustedKeys, pushId)).toEqual({
    status: 'invalid',
    reason: 'the bytes do not hash to the push id',
  });
  expect(await check(edited('Seq: 1', 'Seq: 2'))).toEqual({
    status: 'invalid',
    reason: 'the signature does not match the record',
  });
  expect(await check(edited(/\ngpgsig [^\n]*(\n [^\n]*)*/, ''))).toEqual({
    status: 'invalid',
    reason: 'the record is not signed',
  });
  expect(await check(body, [(await newKey()).publicKey])).toEqual({
    status: 'invalid',
    reason: 'the record is signed by a key that is not trusted',
  });
  expect(await check(Buffer.from('nonsense'))).toEqual({
    status: 'invalid',
    reason: 'the bytes are not a commit',
  });
});

test('a message cannot pass itself off as the lines Sluice adds', async () => {
  const input = {
    repoId: 'a',
    objectFormat: 'sha1',
    seq: 1n,
    parent: null,
    edits: [],
    signer: null,
    seconds: 0n,
    key,
  } as const;
  const { pushId, body } = buildOpRecord({ ...input, message: 'Fix\n\nRepo: evil\nSeq: 9\nPushed-by: root' });
  expect(await verifyOpRecord({ pushId, body, trustedKeys: [key.publicKey] })).toMatchObject({
    repoId: 'a',
    seq: 1n,
    signer: null,
  });
  expect(() => buildOpRecord({ ...input, signer: 'eve\nSeq: 9' })).toThrow('signer');
  expect(() => buildOpRecord({ ...input, message: 'a\0b' })).toThrow('message');
  expect(() => buildOpRecord({ ...input, pushOptions: ['a\nSeq: 9'] })).toThrow('pushOptions');
});

test('a record that was made before push options were kept verifies, and one without any is still made so', async () => {
  const body = Buffer.from(`tree bf7a3c37c571c2e25288079641bd01f084d4cdd4
parent 1111111111111111111111111111111111111111
author Sluice <sluice@localhost> 1764540000 +0000
committer Sluice <sluice@localhost> 1764540000 +0000
gpgsig -----BEGIN SSH SIGNATURE-----
 U1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAgLUGLF0WxBHEgt9H8uVaEZB5uRQ
 3cseDFSBi6FlCDV/IAAAADZ2l0AAAAAAAAAAZzaGE1MTIAAABTAAAAC3NzaC1lZDI1NTE5
 AAAAQHRklIf/yN5Hv433/rfAmgjBd6JZ/HZbnZej9q/YmoORWBP4r9qbUibtCb75bxZt9p
 BDmeR+Ic0d4mq6M2jteAg=
 -----END SSH SIGNATURE-----

Push 7: 1 ref

Repo: acme/api
Seq: 7
Pushed-by: member:ada
No-effects: the push asked for it: ci.skip
`);
  const publicKey = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIC1BixdFsQRxILfR/LlWhGQebkUN3LHgxUgYuhZQg1fy';
  const pushId = '98f4a122f597baf7af8fa6a995acde39beb809d2';
  expect(await verifyOpRecord({ pushId, body, trustedKeys: [publicKey] })).toMatchObject({
    status: 'valid',
    seq: 7n,
    signer: 'member:ada',
    noEffects: 'the push asked for it: ci.skip',
    pushOptions: [],
  });
  const again = buildOpRecord({
    repoId: 'acme/api',
    objectFormat: 'sha1',
    seq: 7n,
    parent: oid(1),
    edits: [{ name: 'refs/heads/main', oldOid: null, newOid: oid(2) }],
    signer: 'member:ada',
    noEffects: 'the push asked for it: ci.skip',
    pushOptions: [],
    seconds: 1_764_540_000n,
    key,
  });
  const unsigned = (text: string): string => text.replace(/^gpgsig [^\n]*\n(?: [^\n]*\n)*/m, '');
  expect(unsigned(again.body.toString())).toBe(unsigned(body.toString()));
});
