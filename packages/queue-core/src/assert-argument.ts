import { assertStorable, SluiceError } from '@sluice/db';

/** Refuses a number that is not whole or lies outside its bounds: NaN and Infinity included. */
export function assertWhole(
  field: string,
  value: unknown,
  min: number,
  max: number,
): asserts value is number {
  if (Number.isInteger(value) && (value as number) >= min && (value as number) <= max) return;
  throw invalid(field, `a whole number from ${min} to ${max}`, value, 'Pass one within these bounds.');
}

/** Refuses text that is empty, too long, or not storable. */
export function assertText(field: string, value: unknown, bytesMax: number): asserts value is string {
  if (typeof value !== 'string' || value === '' || Buffer.byteLength(value) > bytesMax) {
    throw invalid(field, `text of 1 to ${bytesMax} bytes`, value, 'Shorten it or fill it in.');
  }
  assertStorable(field, value);
}

/** Refuses what cannot be the key of a repository, by the rule that the table `repo` has. */
export function assertRepoId(field: string, value: unknown): asserts value is string {
  if (typeof value === 'string' && isRepoId(value)) return;
  throw invalid(
    field,
    'a repo id of 1 to 200 characters such as acme/api',
    value,
    'Use A-Z a-z 0-9 . _ / @ : + -',
  );
}

/** Whether a text from outside (a notification, a row that somebody else wrote) can name a repo. */
export function isRepoId(value: string): boolean {
  return /^[A-Za-z0-9._/@:+-]{1,200}$/.test(value);
}

/** Whether a claimant's name is the id of a dispatcher, registered or not: names of other claimants look different. */
export function isDispatcherId(value: unknown): value is string {
  return typeof value === 'string' && /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(value);
}

/** Refuses what is not an array or is longer than one call may be. */
export function assertList(field: string, value: unknown, max: number): asserts value is readonly unknown[] {
  if (Array.isArray(value) && value.length <= max) return;
  const got = Array.isArray(value) ? `${value.length} items` : value;
  throw invalid(field, `an array of at most ${max} items`, got, 'Split the call, or pass [] for none.');
}

/** An `invalid_argument` error in the one form that all of them have. */
export function invalid(field: string, expected: string, got: unknown, next: string): SluiceError {
  return new SluiceError('invalid_argument', `${field}: expected ${expected}, got ${shown(got)}.`, { next });
}

function shown(value: unknown): string {
  if (typeof value === 'string') {
    const bytes = Buffer.byteLength(value);
    return value.length <= 60
      ? JSON.stringify(value)
      : `${JSON.stringify(value.slice(0, 60))}… (${bytes} bytes)`;
  }
  if (typeof value === 'object' && value !== null)
    return value instanceof Date ? 'an invalid Date' : 'an object';
  return String(value);
}
