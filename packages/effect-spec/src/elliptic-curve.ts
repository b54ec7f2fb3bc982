export type CurveName = 'nistp256' | 'nistp384' | 'nistp521';

/** A curve y² = x³ - 3x + b over the integers modulo p, as FIPS 186-4 has it. */
interface Curve {
  p: bigint;
  b: bigint;
  /** Length of a coordinate. */
  bytes: number;
}

const CURVES: Readonly<Record<CurveName, Curve>> = {
  nistp256: {
    p: 2n ** 256n - 2n ** 224n + 2n ** 192n + 2n ** 96n - 1n,
    b: 0x5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604bn,
    bytes: 32,
  },
  nistp384: {
    p: 2n ** 384n - 2n ** 128n - 2n ** 96n + 2n ** 32n - 1n,
    b: 0xb3312fa7e23ee7e4988e056be3f82d19181d9c6efe8141120314088f5013875ac656398d8a2ed19d2a85c8edd3ec2aefn,
    bytes: 48,
  },
  nistp521: {
    p: 2n ** 521n - 1n,
    b: 0x0051953eb9618e1c9a1f929a21a0b68540eea2da725b99b315f3b8b489918ef109e156193951ec7e937b1652c0bd3bb1bf073573df883d2c34f1ef451fd46b503f00n,
    bytes: 66,
  },
};

/** What comes before both coordinates of a point that is not compressed. */
const UNCOMPRESSED = 4;

/** Whether bytes are a point of the curve, in the one form that SSH has: a changed byte makes them none. */
export function isOnCurve(name: CurveName, point: Buffer): boolean {
  const { p, b, bytes } = CURVES[name];
  if (point.length !== 1 + 2 * bytes || point[0] !== UNCOMPRESSED) return false;
  const [x, y] = [numberOf(point.subarray(1, 1 + bytes)), numberOf(point.subarray(1 + bytes))];
  return x < p && y < p && (y * y - (x * x * x - 3n * x + b)) % p === 0n;
}

function numberOf(bytes: Buffer): bigint {
  return BigInt(`0x${bytes.toString('hex')}`);
}
