import { expect, test } from 'vitest';
import { checkNewEffect } from './new-effect.ts';

test.each([
  ['repoId', { repoId: '' }],
  ['repoId', { repoId: 'no spaces' }],
  ['payload', { payload: 'a\0b' }],
  ['payload', { payload: '\ud800' }],
  ['payload', { payload: 'x'.repeat(4 * 1024 * 1024 + 1) }],
  ['payload', { payload: undefined as unknown as string }],
  ['name', { name: 'n'.repeat(301) }],
  ['priority', { priority: 32_768 }],
  ['priority', { priority: Number.NaN }],
  ['priority', { priority: 1.5 }],
  ['maxAttempts', { maxAttempts: 0 }],
  ['delayMs', { delayMs: -1 }],
  ['delayMs', { delayMs: Number.POSITIVE_INFINITY }],
  ['runAt', { runAt: new Date(Number.NaN) }],
  ['runAt', { runAt: new Date(), delayMs: 1 }],
  ['dedupKey', { dedupKey: '' }],
  ['dedupKey', { dedupKey: 'ü'.repeat(101) }],
  ['dedupKey', { dedupKey: '\udfff' }],
  ['retainDedupKey', { retainDedupKey: true }],
  ['concurrencyGroup', { concurrencyGroup: '\0' }],
  ['supersede', { supersede: true }],
  ['pushId', { pushId: '' }],
])('a wrong %s is refused by name', (field, wrong) => {
  const effect = { repoId: 'a/b', payload: 'good', ...wrong };
  expect(() => checkNewEffect(effect, 'effects[1].')).toThrow(
    expect.objectContaining({
      code: 'invalid_argument',
      message: expect.stringMatching(new RegExp(`^effects\\[1\\]\\.${field}: expected .*, got `)),
    }),
  );
});
