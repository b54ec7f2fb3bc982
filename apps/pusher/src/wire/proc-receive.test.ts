import { expect, test } from 'vitest';
import { encodePkt, FLUSH } from './pkt-line.ts';
import { answerProcReceive, ProcReceiveReader, procReceiveReply, type HandedOver } from './proc-receive.ts';

const oid = 'a'.repeat(40);
const zero = '0'.repeat(40);

test('the greeting and the list are read however the bytes are cut', () => {
  const bytes = Buffer.concat([
    encodePkt('version=1\0atomic push-options\n'),
    FLUSH,
    encodePkt(`${zero} ${oid} refs/heads/a b`),
    encodePkt(Buffer.concat([Buffer.from(`${zero} ${oid} refs/heads/`), Buffer.from([0xff])])),
    FLUSH,
    encodePkt('ci.skip'),
    FLUSH,
  ]);
  const reader = new ProcReceiveReader();
  for (const [at, byte] of [...bytes.subarray(0, -1)].entries()) {
    expect(reader.push(Buffer.from([byte]))).toEqual({ isGreeted: at >= 37, handedOver: null });
  }
  expect(reader.push(bytes.subarray(-1)).handedOver).toEqual({
    commands: [
      { oldOid: zero, newOid: oid, name: Buffer.from('refs/heads/a b') },
      { oldOid: zero, newOid: oid, name: Buffer.concat([Buffer.from('refs/heads/'), Buffer.from([0xff])]) },
    ],
    pushOptions: [Buffer.from('ci.skip')],
  });
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

test.each([
  { offered: 'push-options atomic', hello: '001aversion=1\0push-options0000', options: ['ci.skip', 'a b'] },
  { offered: 'atomic', hello: '000eversion=1\0' + '0000', options: [] },
])('push options are asked for where git offers them ($offered)', async ({ offered, hello, options }) => {
  const bytes = Buffer.concat([
    encodePkt(`version=1\0${offered}\n`),
    FLUSH,
    encodePkt(`${zero} ${oid} refs/heads/main`),
    FLUSH,
    ...(options.length === 0 ? [] : [...options.map((option) => encodePkt(option)), FLUSH]),
  ]);
  const written: Buffer[] = [];
  const seen: HandedOver[] = [];
  await answerProcReceive({
    input: (async function* () {
      yield bytes;
    })(),
    write: (part) => void written.push(part),
    decide: async (push) => {
      seen.push(push);
      return push.commands.map(({ name }) => ({ name }));
    },
  });
  expect(seen).toEqual([
    {
      commands: [{ oldOid: zero, newOid: oid, name: Buffer.from('refs/heads/main') }],
      pushOptions: options.map((option) => Buffer.from(option)),
    },
  ]);
  expect(Buffer.concat(written).toString()).toBe(`${hello}0016ok refs/heads/main0000`);
});
