import { open, type FileHandle } from 'node:fs/promises';
import { inflateSync } from 'node:zlib';
import { hashObject, type ObjectFormat, type ObjectKind } from '@sluice/ref-store';

/** An object as a pack holds it whole. */
export interface PackedObject {
  kind: ObjectKind;
  content: Buffer;
}

/** Larger ones, and what else is not simple, are left to git. */
const CONTENT_BYTES_MAX = 64 * 1024;

/**
 * Reads an object from a pack, without a git process; `path` is the pack's, without an ending. Null if it is not there
 * or not simple to read: stored as a delta, or large. Git's pack format, index version 2 (gitformat-pack). What is
 * returned has the hash that it was asked for by, so it cannot be anything else.
 */
export async function readPacked(
  path: string,
  format: ObjectFormat,
  oid: string,
): Promise<PackedObject | null> {
  try {
    const offset = await findOffset(`${path}.idx`, Buffer.from(oid, 'hex'));
    const found = offset === null ? null : await readAt(`${path}.pack`, offset);
    return found !== null && hashObject(format, found.kind, found.content) === oid ? found : null;
  } catch {
    // Upkeep may have put a larger pack in its place. Whatever else it is, git finds it too, and has a word for it.
    return null;
  }
}

const IDX_MAGIC = Buffer.from('ff744f6300000002', 'hex');
const NAMES_AT = IDX_MAGIC.length + 256 * 4;
/** Names that share their first byte and are worth looking through: those of a pack with millions of objects. */
const BUCKET_BYTES_MAX = 512 * 1024;
const IS_LARGE_OFFSET = 0x8000_0000;

async function findOffset(path: string, name: Buffer): Promise<number | null> {
  await using file = await open(path, 'r');
  const head = await readBytes(file, 0, NAMES_AT);
  if (head.length < NAMES_AT || !head.subarray(0, IDX_MAGIC.length).equals(IDX_MAGIC)) return null;
  const countUpTo = (byte: number): number => (byte < 0 ? 0 : head.readUInt32BE(IDX_MAGIC.length + byte * 4));
  const first = countUpTo(name[0]! - 1);
  const bytes = (countUpTo(name[0]!) - first) * name.length;
  if (bytes === 0 || bytes > BUCKET_BYTES_MAX) return null;
  const bucket = await readBytes(file, NAMES_AT + first * name.length, bytes);
  let at = bucket.indexOf(name);
  while (at !== -1 && at % name.length !== 0) at = bucket.indexOf(name, at + 1);
  if (at === -1) return null;
  const total = countUpTo(255);
  const index = first + at / name.length;
  // Behind the names: a checksum of four bytes for each object, then an offset of four bytes for each.
  const offset = await readBytes(file, NAMES_AT + total * (name.length + 4) + index * 4, 4);
  return offset.length < 4 || offset.readUInt32BE(0) >= IS_LARGE_OFFSET ? null : offset.readUInt32BE(0);
}

/** By the three bits of an object's header; the others are deltas. */
const KINDS: readonly (ObjectKind | undefined)[] = [undefined, 'commit', 'tree', 'blob', 'tag'];
const HEADER_BYTES_MAX = 10;
/** What deflate adds at most to what it cannot compress. */
const DEFLATE_BYTES_MORE = 256;

async function readAt(path: string, offset: number): Promise<PackedObject | null> {
  await using file = await open(path, 'r');
  const start = await readBytes(file, offset, 4096);
  const header = readHeader(start);
  if (header === null) return null;
  const bytesMax = header.at + header.bytes + DEFLATE_BYTES_MORE;
  const packed = bytesMax <= start.length ? start : await readBytes(file, offset, bytesMax);
  const content = inflateSync(packed.subarray(header.at), { maxOutputLength: Math.max(1, header.bytes) });
  return { kind: header.kind, content };
}

/** The kind and size of an object, and where its compressed content begins; null: left to git. */
function readHeader(start: Buffer): { kind: ObjectKind; bytes: number; at: number } | null {
  const first = start[0] ?? 0;
  const kind = KINDS[(first >> 4) & 7];
  if (kind === undefined) return null;
  let bytes = first & 15;
  let at = 1;
  for (let shift = 4; (start[at - 1]! & 0x80) !== 0; shift += 7, at += 1) {
    if (at >= HEADER_BYTES_MAX || at >= start.length || bytes > CONTENT_BYTES_MAX) return null;
    bytes += (start[at]! & 0x7f) * 2 ** shift;
  }
  return bytes > CONTENT_BYTES_MAX ? null : { kind, bytes, at };
}

/** As many bytes as there are, up to `length`. */
async function readBytes(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(length), 0, length, position);
  return buffer.subarray(0, bytesRead);
}
