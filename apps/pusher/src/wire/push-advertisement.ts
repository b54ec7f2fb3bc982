import { zeroOid, type ObjectFormat } from '@sluice/ref-store';
import { chomp, decodePkt, encodePkt, FLUSH, PktLineError } from './pkt-line.ts';

export interface PushAdvertisement {
  objectFormat: ObjectFormat;
  /** A line `<oid> <name>` for each ref; never changed once it was given. */
  lines: Buffer;
  /** What the server can do, such as `report-status atomic`. */
  capabilities: string;
}

/**
 * Encodes what a push is shown first: the refs, with the capabilities behind the first of them. In parts, of which the
 * one with all other refs is the same for everybody who is shown them.
 */
export function encodePushAdvertisement({ objectFormat, lines, capabilities }: PushAdvertisement): Buffer[] {
  const packets = packetsOf(lines);
  const first = packets.length === 0 ? null : decodePkt(packets, 0);
  const shown = chomp(first?.packet ?? Buffer.from(`${zeroOid(objectFormat)} capabilities^{}`));
  const opening = Buffer.concat([shown, Buffer.from(`\0${capabilities}\n`)]);
  return [encodePkt(opening), packets.subarray(first?.next ?? 0), FLUSH];
}

/** By the lines that they were made of: ten thousand refs that stay the same are encoded once. */
const known = new WeakMap<Buffer, Buffer>();

function packetsOf(lines: Buffer): Buffer {
  let packets = known.get(lines);
  if (packets === undefined) known.set(lines, (packets = encodeLines(lines)));
  return packets;
}

const NEWLINE = 0x0a;
const LENGTH_BYTES = 4;

function encodeLines(lines: Buffer): Buffer {
  const ends: number[] = [];
  for (let at = lines.indexOf(NEWLINE); at !== -1; at = lines.indexOf(NEWLINE, at + 1)) ends.push(at + 1);
  const packets = Buffer.allocUnsafe(lines.length + ends.length * LENGTH_BYTES);
  let from = 0;
  let to = 0;
  for (const end of ends) {
    const length = end - from + LENGTH_BYTES;
    packets.write(length.toString(16).padStart(LENGTH_BYTES, '0'), to, 'latin1');
    lines.copy(packets, to + LENGTH_BYTES, from, end);
    from = end;
    to += length;
  }
  return packets;
}

/** The capabilities of an advertisement. */
export function capabilitiesOf(advertisement: Buffer): string {
  const packet = decodePkt(advertisement, 0)?.packet;
  const nul = packet?.indexOf(0) ?? -1;
  if (nul === -1) throw new PktLineError('expected an advertisement with capabilities');
  return chomp(packet!.subarray(nul + 1)).toString('latin1');
}
