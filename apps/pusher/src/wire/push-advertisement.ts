import { zeroOid, type ObjectFormat } from '@sluice/ref-store';
import { chomp, decodePkt, encodePkt, FLUSH, PktLineError } from './pkt-line.ts';

export interface PushAdvertisement {
  objectFormat: ObjectFormat;
  /** A packet `<oid> <name>` for each ref. */
  lines: Buffer;
  /** What the server can do, such as `report-status atomic`. */
  capabilities: string;
}

/** Encodes what a push is shown first: the refs, with the capabilities behind the first of them. */
export function encodePushAdvertisement({ objectFormat, lines, capabilities }: PushAdvertisement): Buffer {
  const first = lines.length === 0 ? null : decodePkt(lines, 0);
  const shown = chomp(first?.packet ?? Buffer.from(`${zeroOid(objectFormat)} capabilities^{}`));
  const opening = Buffer.concat([shown, Buffer.from(`\0${capabilities}\n`)]);
  return Buffer.concat([encodePkt(opening), lines.subarray(first?.next ?? 0), FLUSH]);
}

/** The capabilities of an advertisement. */
export function capabilitiesOf(advertisement: Buffer): string {
  const packet = decodePkt(advertisement, 0)?.packet;
  const nul = packet?.indexOf(0) ?? -1;
  if (nul === -1) throw new PktLineError('expected an advertisement with capabilities');
  return chomp(packet!.subarray(nul + 1)).toString('latin1');
}
