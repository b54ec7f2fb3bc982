import { SluiceError } from './sluice-error.ts';

/** Refuses text that PostgreSQL could not give back as it was: a NUL, or a surrogate without its partner. */
export function assertStorable(field: string, value: string): void {
  const nul = value.indexOf('\0');
  if (nul !== -1) throw unstorable(field, `a NUL character at index ${nul}`);
  if (value.isWellFormed()) return;
  throw unstorable(field, `a lone surrogate at index ${loneSurrogateIndex(value)}`);
}

function loneSurrogateIndex(value: string): number {
  return value.search(/[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/);
}

function unstorable(field: string, got: string): SluiceError {
  return new SluiceError(
    'invalid_argument',
    `${field}: expected text that PostgreSQL can store, got ${got}.`,
    { next: 'Encode binary data first, for example as base64.' },
  );
}
