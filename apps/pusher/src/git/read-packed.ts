import { inflateSync } from 'node:zlib';
import { hashObject, type ObjectFormat, type ObjectKind } from '@sluice/ref-store';
import { readPart } from './read-part.ts';

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
export function readPacked(path: string, format: ObjectFormat, oid: string): PackedObject | null {
  try {
    const offset = findOffset(`${path}.idx`, Buffer.from(oid, 'hex'));
    const found = offset === null ? null : readAt(`${path}.pack`, offset);
    return found !== null && hashObject(format, found.kind, found.content) === oid ? found : null;
  } catch {
    // Upkeep may have put a larger pack in its place. Whatever else it is, git finds it too, and has a word for it.
    return null;
  }
}

const NOTHING = Buffer.alloc(0);
const IDX_MAGIC = Buffer.from('ff744f6300000002', 'hex');
const NAMES_AT = IDX_MAGIC.length + 256 * 4;
/** Names that share their first byte and are worth looking through: those of a pack with millions of objects. */
const BUCKET_BYTES_MAX = 512 * 1024;
const IS_LARGE_OFFSET = 0x8000_0000;

function findOffset(path: string, name: Buffer): number | null {
  const head = readPart(path, NAMES_AT) ?? NOTHING;
  if (head.length < NAMES_AT || !head.subarray(0, IDX_MAGIC.length).equals(IDX_MAGIC)) return null;
  const countUpTo = (byte: number): number => (byte < 0 ? 0 : head.readUInt32BE(IDX_MAGIC.length + byte * 4));
  const first = countUpTo(name[0]! - 1);
  const bytes = (countUpTo(name[0]!) - first) * name.length;
  if (bytes === 0 || bytes > BUCKET_BYTES_MAX) return null;
  const bucket = readPart(path, bytes, NAMES_AT + first * name.length) ?? NOTHING;
  let at = bucket.indexOf(name);
  while (at !== -1 && at % name.length !== 0) at = bucket.indexOf(name, at + 1);
  if (at === -1) return null;
  const index = first + at / name.length;
  // Behind the names: a checksum of four bytes for each object, then an offset of four bytes for each.
  const offsetAt = NAMES_AT + countUpTo(255) * (name.length + 4) + index * 4;
  const offset = readPart(path, 4, offsetAt) ?? NOTHING;
  return offset.length < 4 || offset.readUInt32BE(0) >= IS_LARGE_OFFSET ? null : offset.readUInt32BE(0);
}

/** By the three bits of an object's header; the others are deltas. */
const KINDS: readonly (ObjectKind | undefined)[] = [undefined, 'commit', 'tree', 'blob', 'tag'];
const HEADER_BYTES_MAX = 10;
/** Enough for a commit, and for what is longer only the beginning. */
const READ_BYTES = 4096;
/** What deflate adds at most to what it cannot compress. */
const DEFLATE_BYTES_MORE = 256;

function readAt(path: string, offset: number): PackedObject | null {
  const start = readPart(path, READ_BYTES, offset) ?? NOTHING;
  const header = readHeader(start);
  if (header === null) return null;
  const bytesMax = header.at + header.bytes + DEFLATE_BYTES_MORE;
  const packed = bytesMax <= start.length ? start : (readPart(path, bytesMax, offset) ?? NOTHING);
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
