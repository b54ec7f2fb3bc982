import { createPublicKey } from 'node:crypto';

/** Curves by SSH's name, with the length of a coordinate and the name that JSON web keys have for it. */
const CURVES = {
  nistp256: { bytes: 32, crv: 'P-256' },
  nistp384: { bytes: 48, crv: 'P-384' },
  nistp521: { bytes: 66, crv: 'P-521' },
} as const;
/** What comes before both coordinates of a point that is not compressed. */
const UNCOMPRESSED = 4;

/** Whether the parts of a key's blob behind its type are those of such a key. */
type Judge = (...parts: Buffer[]) => boolean;

/** By type, with the number of parts. */
const KINDS: ReadonlyMap<string, { parts: number; isKey: Judge }> = new Map([
  ['ssh-ed25519', { parts: 1, isKey: isEd25519 }],
  ['ecdsa-sha2-nistp256', { parts: 2, isKey: onCurve('nistp256') }],
  ['ecdsa-sha2-nistp384', { parts: 2, isKey: onCurve('nistp384') }],
  ['ecdsa-sha2-nistp521', { parts: 2, isKey: onCurve('nistp521') }],
  ['ssh-rsa', { parts: 2, isKey: isRsa }],
  // What the security key signs for comes last.
  ['sk-ssh-ed25519@openssh.com', { parts: 2, isKey: isEd25519 }],
  ['sk-ecdsa-sha2-nistp256@openssh.com', { parts: 3, isKey: onCurve('nistp256') }],
]);

/** The kinds of keys whose signatures are taken. */
export const PUBLIC_KEY_TYPES: readonly string[] = [...KINDS.keys()];

/**
 * A public key as `ssh-keygen` writes it to a `.pub` file, in the one spelling that may be compared: type and base64,
 * without the comment. Undefined if it is none; options and certificates in its place are none.
 */
export function normalizePublicKey(line: string): string | undefined {
  const [type = '', base64 = ''] = line.trim().split(/ +/);
  if (!PUBLIC_KEY_TYPES.includes(type)) return undefined;
  const blob = Buffer.from(base64, 'base64');
  return blob.toString('base64') === base64 && publicKeyOf(blob) === `${type} ${base64}`
    ? `${type} ${base64}`
    : undefined;
}

/** The same for a key in SSH wire format, which begins with its type. */
export function publicKeyOf(blob: Buffer): string | undefined {
  if (blob.length < 8) return undefined;
  const end = 4 + blob.readUInt32BE(0);
  const type = end < blob.length ? blob.toString('latin1', 4, end) : '';
  return PUBLIC_KEY_TYPES.includes(type) ? `${type} ${blob.toString('base64')}` : undefined;
}

/**
 * Whether nothing is missing from a key that {@link normalizePublicKey} gave, and `ssh-keygen` would take it and write it
 * so. One that is cut off is a key as well, of which nobody has the other half; who reads members takes it, who makes
 * them should not.
 */
export function isWholePublicKey(key: string): boolean {
  const [type = '', base64 = ''] = key.split(' ');
  const kind = KINDS.get(type);
  const [, ...parts] = readParts(Buffer.from(base64, 'base64')) ?? [];
  return kind !== undefined && parts.length === kind.parts && kind.isKey(...parts);
}

/** Null: the blob does not end where its last part does. */
function readParts(blob: Buffer): Buffer[] | null {
  const parts: Buffer[] = [];
  let at = 0;
  while (at + 4 <= blob.length) {
    const begin = at + 4;
    at = begin + blob.readUInt32BE(at);
    parts.push(blob.subarray(begin, at));
  }
  return at === blob.length ? parts : null;
}

/** Any point is one: `ssh-keygen` looks at its length alone. */
function isEd25519(point: Buffer = Buffer.alloc(0), application?: Buffer): boolean {
  return point.length === 32 && isText(application);
}

/** A changed byte makes a point none of the curve's. */
function onCurve(name: keyof typeof CURVES): Judge {
  const { bytes, crv } = CURVES[name];
  return (named, point, application) => {
    if (named?.toString('latin1') !== name || point?.length !== 1 + 2 * bytes) return false;
    if (point[0] !== UNCOMPRESSED || !isText(application)) return false;
    const [x, y] = [point.subarray(1, 1 + bytes), point.subarray(1 + bytes)];
    const key = { kty: 'EC', crv, x: x.toString('base64url'), y: y.toString('base64url') };
    try {
      createPublicKey({ key, format: 'jwk' });
      return true;
    } catch {
      return false;
    }
  };
}

const RSA_BITS = { min: 1024, max: 16_384 };

function isRsa(exponent: Buffer = Buffer.alloc(0), modulus: Buffer = Buffer.alloc(0)): boolean {
  const bits = bitsOf(modulus);
  return bitsOf(exponent) > 0 && bits >= RSA_BITS.min && bits <= RSA_BITS.max;
}

/**
 * How long a number is in bits; 0 for none, for a negative one, which has its first bit set, and for one with more zeros
 * before it than it takes: a signature names its key without them.
 */
function bitsOf(number: Buffer): number {
  const [first = 0, second = 0] = number;
  if (first >= 0x80 || (first === 0 && second < 0x80)) return 0;
  return first === 0 ? 8 * (number.length - 1) : 8 * (number.length - 1) + (32 - Math.clz32(first));
}

function isText(application: Buffer | undefined): boolean {
  return application?.includes(0) !== true;
}
