import { SluiceError } from '@sluice/db';
import { expect, test } from 'vitest';
import { explain } from './command-error.ts';

test('an error with a code says what to do once, whether the catalogue says it or the error', () => {
  const full = new SluiceError('queue_full', 'expected room for an effect of acme/api, got none.');
  expect(explain(full)).toBe(
    'sluice: expected room for an effect of acme/api, got none.\n' +
      '  next: Wait for the queue to drain, or raise it: sluice repo set <repo> --max-queued <n>.\n',
  );
  const wrong = new SluiceError('invalid_argument', 'effectId: expected a number, got "x".', {
    next: 'Copy it from sluice queue.',
  });
  expect(wrong.message).toBe('effectId: expected a number, got "x". Copy it from sluice queue.');
  expect(explain(wrong)).toBe(
    'sluice: effectId: expected a number, got "x".\n  next: Copy it from sluice queue.\n',
  );
});
