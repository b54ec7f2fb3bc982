import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ObjectFormat, RefChange, RefRow } from '@sluice/ref-store';
import { changeLines } from './ref-lines.ts';
import { readPart } from './read-part.ts';
import { replaceFile } from './replace-file.ts';
import { syncFolder } from './repo-folder.ts';

/** Which refs a file holds: all, or all but results. */
export type RefView = 'all' | 'no-results';

/** What the first line of a `packed-refs` of ours says, as words that git ignores. */
export interface PackedRefsHeader {
  /** Names the state of the refs. */
  stamp: string;
  view: RefView;
  /** Since which start of the machine the file is there; null: it was synced to disk. */
  boot: string | null;
}

/** A word for this start of the machine; null where there is none, and every file has to be synced. */
export const BOOT = readBoot();

function readBoot(): string | null {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return null;
  }
}

const FILE = 'packed-refs';
const HEADER_BYTES_MAX = 2048;
// `sorted` only: with `peeled`, git would believe that a tag without a peeled line is no tag. The name of a branch, which
// is in the stamp, has no ASCII space, but it may have other ones, such as U+00A0.
const HEADER = /^# pack-refs with: sorted (sluice=[^ \n]+) view=(all|no-results) boot=(\S+) \n/;

function encodeHeader({ stamp, view, boot }: PackedRefsHeader): Buffer {
  return Buffer.from(`# pack-refs with: sorted ${stamp} view=${view} boot=${boot ?? 'any'} \n`);
}

/**
 * The header of a repository's `packed-refs`; null if there is none of ours, or if it was not synced and the machine
 * went down since: then the rest of the file may be anything. Without `isSure` that one counts too.
 */
export function readHeader(
  gitDir: string,
  { isSure = true }: { isSure?: boolean } = {},
): PackedRefsHeader | null {
  const found = HEADER.exec(readPart(join(gitDir, FILE), HEADER_BYTES_MAX)?.toString('utf8') ?? '');
  if (found === null) return null;
  const boot = found[3] === 'any' ? null : found[3]!;
  const isValid = boot === null || boot === BOOT || !isSure;
  return isValid ? { stamp: found[1]!, view: found[2] as RefView, boot } : null;
}

/** The lines behind a header; null if the file has another one by now. */
export async function readLines(gitDir: string, header: PackedRefsHeader): Promise<Buffer | null> {
  const content = await readFile(join(gitDir, FILE));
  const start = encodeHeader(header);
  return content.subarray(0, start.length).equals(start) ? content.subarray(start.length) : null;
}

/** Puts a whole file in the place of the former one; synced to disk unless its header says otherwise. */
export async function writePackedRefs(
  gitDir: string,
  header: PackedRefsHeader,
  lines: Buffer,
): Promise<void> {
  const isSynced = header.boot === null;
  await replaceFile(join(gitDir, FILE), Buffer.concat([encodeHeader(header), lines]), { isSynced });
  if (isSynced) await syncFolder(gitDir);
}

/** One line for each ref, as they come. */
export function linesOf(refs: readonly RefRow[]): Buffer {
  return Buffer.from(refs.map(lineOf).join(''));
}

/** Lines with changes applied; the others are copied and not looked at. */
export function changeRefs(lines: Buffer, format: ObjectFormat, changes: readonly RefChange[]): Buffer {
  if (changes.length === 0) return lines;
  const nameAt = format === 'sha1' ? 41 : 65;
  return changeLines(
    lines,
    nameAt,
    changes.map(({ name, oid }) => ({
      name: Buffer.from(name),
      line: oid === null ? null : Buffer.from(lineOf({ name, oid })),
    })),
  );
}

function lineOf({ oid, name }: RefRow): string {
  return `${oid} ${name}\n`;
}
