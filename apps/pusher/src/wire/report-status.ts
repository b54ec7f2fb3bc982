import { printable } from '@sluice/service-kit';
import { encodePkt, FLUSH, PKT_BYTES_MAX } from './pkt-line.ts';

/** What became of one ref; no reason means it was accepted. */
export interface RefReport {
  name: Buffer;
  reason?: string;
}

/** The answer to a push that git itself never saw. */
export interface Report {
  /** Why nothing was read at all; by default the objects count as unpacked and each ref has its own reason. */
  unpackProblem?: string;
  refs: readonly RefReport[];
  /** Printed by the client as `remote: …`. */
  lines: readonly string[];
}

/** Encodes a report as the client asked for it: with side-band or without, or not at all. */
export function encodeReport(capabilities: ReadonlySet<string>, report: Report): Buffer {
  const isBanded = capabilities.has('side-band-64k');
  const parts: Buffer[] = [];
  if (isBanded) for (const line of report.lines) parts.push(...progress(line));
  if (capabilities.has('report-status') || capabilities.has('report-status-v2')) {
    const unpack = encodePkt(`unpack ${oneLine(report.unpackProblem ?? 'ok')}\n`);
    const status = Buffer.concat([unpack, ...report.refs.map((ref) => encodePkt(refLine(ref, '\n'))), FLUSH]);
    parts.push(...(isBanded ? inBand(1, status) : [status]));
  }
  if (isBanded) parts.push(FLUSH);
  return Buffer.concat(parts);
}

/** A line that the client prints after `remote: `. */
export function progress(line: string): Buffer[] {
  return inBand(2, Buffer.from(`${oneLine(line)}\n`, 'utf8'));
}

const LINE_BYTES_MAX = PKT_BYTES_MAX - 4;

/**
 * `ok <ref>` or `ng <ref> <reason>`, as both the report and git's proc-receive protocol spell it: of a name that leaves
 * no room in a packet for the reason, as much of both as there is room for.
 */
export function refLine(ref: RefReport, end: '' | '\n' = ''): Buffer {
  const verdict = ref.reason === undefined ? 'ok ' : 'ng ';
  const reason = ref.reason === undefined ? '' : ` ${oneLine(ref.reason)}`;
  const line = Buffer.concat([Buffer.from(verdict), ref.name, Buffer.from(reason, 'utf8')]);
  return Buffer.concat([cutOff(line, LINE_BYTES_MAX - end.length), Buffer.from(end)]);
}

/** Never in the middle of a character. */
function cutOff(text: Buffer, bytesMax: number): Buffer {
  if (text.length <= bytesMax) return text;
  let length = bytesMax;
  while (length > 0 && (text[length]! & 0xc0) === 0x80) length -= 1;
  return text.subarray(0, length);
}

const CHARACTERS_MAX = 1000;

/** Text made safe for one line of a terminal. */
export function oneLine(text: string): string {
  const short = text.length <= CHARACTERS_MAX ? text : `${text.slice(0, CHARACTERS_MAX).toWellFormed()}…`;
  return printable(short);
}

const BAND_BYTES_MAX = PKT_BYTES_MAX - 5;

function inBand(band: 1 | 2, bytes: Buffer): Buffer[] {
  const parts: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += BAND_BYTES_MAX) {
    parts.push(encodePkt(Buffer.concat([Buffer.from([band]), bytes.subarray(at, at + BAND_BYTES_MAX)])));
  }
  return parts;
}
