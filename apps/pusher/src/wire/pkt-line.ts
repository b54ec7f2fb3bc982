/** Longest pkt-line git allows, its four length digits included. */
export const PKT_BYTES_MAX = 65_520;

/** The flush packet that ends a list. */
export const FLUSH = Buffer.from('0000');

/** One parsed packet: its payload, or null for a flush packet. */
export type Packet = Buffer | null;

/** Raised for bytes that are no pkt-line; the message is safe to show to the client. */
export class PktLineError extends Error {
  override readonly name = 'PktLineError';
}

/** Encodes a payload; a string is taken as UTF-8. Throws RangeError above 65,516 bytes. */
export function encodePkt(payload: string | Buffer): Buffer {
  const bytes = typeof payload === 'string' ? Buffer.from(payload, 'utf8') : payload;
  const length = bytes.length + 4;
  if (length > PKT_BYTES_MAX)
    throw new RangeError(`pkt-line: expected at most 65516 bytes, got ${bytes.length}`);
  return Buffer.concat([Buffer.from(length.toString(16).padStart(4, '0')), bytes], length);
}

/**
 * Finds the packet at `offset`: its payload and where the next one begins, or null while bytes are missing.
 * Delimiter and response-end packets (`0001`, `0002`) do not occur in the protocols spoken here and are refused.
 */
export function decodePkt(bytes: Buffer, offset: number): { packet: Packet; next: number } | null {
  if (bytes.length - offset < 4) return null;
  const length = pktLength(bytes, offset);
  if (length === 0) return { packet: null, next: offset + 4 };
  if (bytes.length - offset < length) return null;
  return { packet: bytes.subarray(offset + 4, offset + length), next: offset + length };
}

/** The length that the four digits at `offset` state; 0 is a flush packet. */
export function pktLength(bytes: Buffer, offset: number): number {
  const digits = bytes.toString('latin1', offset, offset + 4);
  if (!/^[0-9a-fA-F]{4}$/.test(digits)) throw new PktLineError('bad line length character');
  const length = Number.parseInt(digits, 16);
  if (length !== 0 && (length < 4 || length > PKT_BYTES_MAX))
    throw new PktLineError(`bad line length ${length}`);
  return length;
}

/** A payload without the line feed that git appends to most of them. */
export function chomp(payload: Buffer): Buffer {
  return payload.at(-1) === 0x0a ? payload.subarray(0, -1) : payload;
}
