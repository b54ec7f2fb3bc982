import fc from 'fast-check';
import { expect, test } from 'vitest';
import { cleanReason, REASON_MAX } from './clean-reason.ts';

test('keeps what can be shown, escapes what could rewrite a terminal, marks what it cut', () => {
  expect(cleanReason('exit 1:\n\tfür 日本 😀')).toBe('exit 1:\n\tfür 日本 😀');
  expect(cleanReason('\u001b[2Jgone\u0000\r\u202e')).toBe('\\u001b[2Jgone\\u0000\\u000d\\u202e');
  expect(cleanReason('half \ud83d')).toBe('half \ufffd');
  expect(cleanReason('  \n ')).toBe('no reason given');
  const cut = cleanReason('x'.repeat(1_000_000));
  expect(cut).toHaveLength(REASON_MAX);
  expect(cut.endsWith(' … (cut)')).toBe(true);
  expect(cleanReason('😀'.repeat(2_000))).toBe(`${'😀'.repeat(996)} … (cut)`);
  expect(cleanReason(`x${'😀'.repeat(2_000)}`)).toBe(`x${'😀'.repeat(995)} … (cut)`);
  expect(cleanReason(` ${'😀'.repeat(2_000)}`)).toBe(`${'😀'.repeat(996)} … (cut)`);
  expect(cleanReason(`${' '.repeat(101)}x${'😀'.repeat(2_000)}`)).toBe(`x${'😀'.repeat(949)} … (cut)`);
});

test('whatever comes in, the result is storable, bounded and not empty', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 5_000 }), (text) => {
      const clean = cleanReason(text);
      expect(clean.length).toBeGreaterThan(0);
      expect(clean.length).toBeLessThanOrEqual(REASON_MAX);
      expect(clean.isWellFormed()).toBe(true);
      expect(clean).not.toMatch(/[^\P{Cc}\n\t]/u);
    }),
  );
});
