import { expect, test } from 'vitest';
import { LowWaterMarks } from './low-water-marks.ts';

const waiting = (marks: LowWaterMarks): bigint | undefined => marks.of('a').sinceEffectId;

/** Marks that say: of a, nothing below 100 waits. */
function marksAt100(): LowWaterMarks {
  const marks = new LowWaterMarks();
  marks.raise(marks.beginLook(), 'a', { claim: 7n, waiting: 100n });
  expect(marks.of('a')).toEqual({ sinceClaimNumber: 7n, sinceEffectId: 100n });
  return marks;
}

test.each([
  ['is announced', 5n, 5n],
  ['may be there', undefined, undefined],
])('the answer of a claim does not hide an effect that %s while it is under way', (_, announced, mark) => {
  const marks = marksAt100();
  const claim = marks.beginLook();
  marks.lower('a', announced);
  marks.raise(claim, 'a', { claim: 8n, waiting: 120n });
  expect(marks.of('a')).toEqual({ sinceClaimNumber: 8n, sinceEffectId: mark });
});

test('nor one that is announced when there is no mark, nor one that a sweep finds meanwhile', () => {
  const marks = new LowWaterMarks();
  const claim = marks.beginLook();
  marks.lower('a', 5n);
  marks.raise(claim, 'a', { claim: null, waiting: 120n });
  expect(waiting(marks)).toBe(5n);

  const [later, sweep] = [marks.beginLook(), marks.beginLook()];
  marks.sweep(sweep, 'a', 3n);
  marks.raise(later, 'a', { claim: null, waiting: 130n });
  expect(waiting(marks)).toBe(3n);
});

test('a sweep lowers a mark, gives one where there is none, and does not hide what is announced meanwhile', () => {
  const marks = marksAt100();
  marks.sweep(marks.beginLook(), 'a', 150n);
  expect(waiting(marks)).toBe(100n);
  marks.sweep(marks.beginLook(), 'a', 50n);
  expect(waiting(marks)).toBe(50n);
  marks.sweep(marks.beginLook(), 'b', 60n);
  expect(marks.of('b').sinceEffectId).toBe(60n);
  const sweep = marks.beginLook();
  marks.lower('c', 2n);
  marks.sweep(sweep, 'c', 70n);
  expect(marks.of('c').sinceEffectId).toBe(2n);
});

test('what was announced before a look began is in its answer', () => {
  const marks = marksAt100();
  const ended = marks.beginLook();
  marks.endLook(ended);
  marks.lower('a', 5n);
  marks.raise(marks.beginLook(), 'a', { claim: null, waiting: 120n });
  expect(waiting(marks)).toBe(120n);
  marks.raise(ended, 'a', { claim: null, waiting: 130n });
  expect(waiting(marks)).toBe(130n);
});
