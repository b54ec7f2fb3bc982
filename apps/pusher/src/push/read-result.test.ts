import { expect, test } from 'vitest';
import { parseResult } from './read-result.ts';

const good = { effectId: '9223372036854775807', attempt: 1, outcome: 'pass', reason: null };

test('a result is read, and fields of later versions are left alone', () => {
  expect(parseResult(JSON.stringify({ ...good, exitCode: 0, later: true }))).toEqual(good);
});

test.each([
  ['', 'expected JSON'],
  ['null', 'expected an object'],
  [JSON.stringify({ ...good, effectId: 7 }), 'effectId'],
  [JSON.stringify({ ...good, effectId: '0' }), 'effectId'],
  [JSON.stringify({ ...good, attempt: 1.5 }), 'attempt'],
  [JSON.stringify({ ...good, outcome: 'dead' }), 'outcome'],
  [JSON.stringify({ ...good, reason: '' }), 'reason'],
  [JSON.stringify({ ...good, reason: 'a\0b' }), 'reason'],
  [JSON.stringify({ ...good, reason: 'x'.repeat(2001) }), 'reason'],
])('%s is none', (text, problem) => {
  expect(parseResult(text)).toContain(problem);
});
