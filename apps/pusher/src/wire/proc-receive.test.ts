import { expect, test } from 'vitest';
import { encodePkt, FLUSH } from './pkt-line.ts';
import { ProcReceiveReader, procReceiveReply } from './proc-receive.ts';

const oid = 'a'.repeat(40);
const zero = '0'.repeat(40);

test('the greeting and the list are read however the bytes are cut', () => {
  const bytes = Buffer.concat([
    encodePkt('version=1\0push-options atomic\n'),
    FLUSH,
    encodePkt(`${zero} ${oid} refs/heads/a b`),
    encodePkt(Buffer.concat([Buffer.from(`${zero} ${oid} refs/heads/`), Buffer.from([0xff])])),
    FLUSH,
  ]);
  const reader = new ProcReceiveReader();
  for (const [at, byte] of [...bytes.subarray(0, -1)].entries()) {
    expect(reader.push(Buffer.from([byte]))).toEqual({ isGreeted: at >= 37, commands: null });
  }
  expect(reader.push(bytes.subarray(-1)).commands).toEqual([
    { oldOid: zero, newOid: oid, name: Buffer.from('refs/heads/a b') },
    { oldOid: zero, newOid: oid, name: Buffer.concat([Buffer.from('refs/heads/'), Buffer.from([0xff])]) },
  ]);
});

test('another version is refused', () => {
  expect(() => new ProcReceiveReader().push(encodePkt('version=2'))).toThrow('expected version=1');
});

test('the reply names each ref with its verdict, and the reason holds on one line', () => {
  const reply = procReceiveReply([
    { name: Buffer.from('refs/heads/main') },
    { name: Buffer.from('refs/heads/x'), reason: 'not\nthis' },
  ]);
  expect(reply.toString()).toBe('0016ok refs/heads/main0020ng refs/heads/x not\\u{a}this0000');
});
