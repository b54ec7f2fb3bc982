import { SluiceError } from '@sluice/db';

declare const brand: unique symbol;

/** Id of an effect: a `bigint` end to end, never a JS number, which would lose ids beyond 2^53. */
export type EffectId = bigint & { readonly [brand]: 'EffectId' };

const MAX = 2n ** 63n - 1n;

/** Brings an id back from text (a URL, a command line, a notification) or from a plain `bigint`; lossless both ways. */
export function effectId(value: bigint | string): EffectId {
  const id = typeof value === 'bigint' ? value : isDigits(value) ? BigInt(value) : 0n;
  if (id < 1n || id > MAX) {
    throw new SluiceError(
      'invalid_argument',
      `effectId: expected a positive whole number up to ${MAX}, got ${JSON.stringify(String(value)).slice(0, 60)}.`,
      { next: 'Copy it from sluice queue.' },
    );
  }
  return id as EffectId;
}

/** Not so a number, which may have lost its last digits already. */
function isDigits(value: unknown): value is string {
  return typeof value === 'string' && /^[0-9]{1,19}$/.test(value);
}
