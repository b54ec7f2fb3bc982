import { expect, test } from 'vitest';
import { checkedResult } from './run-result.ts';

test('a result is taken as it is', () => {
  for (const result of [
    { status: 'done', outcome: 'pass' },
    { status: 'done', outcome: 'fail', reason: '', resultRef: 'refs/meta/results/x/1' },
    { status: 'settled' },
    { status: 'error', message: '' },
    { status: 'poison', message: 'not a work order' },
  ])
    expect(checkedResult(result)).toBe(result);
});

test.each([
  [undefined, 'undefined'],
  [null, 'null'],
  ['done', "'done'"],
  [{}, '{}'],
  [{ status: 'ok' }, "{ status: 'ok' }"],
  [{ status: 'done' }, "{ status: 'done' }"],
  [{ status: 'done', outcome: 'passed' }, "{ status: 'done', outcome: 'passed' }"],
  [{ status: 'done', outcome: 'toString' }, "{ status: 'done', outcome: 'toString' }"],
  [{ status: 'done', outcome: 'pass', reason: 3 }, "{ status: 'done', outcome: 'pass', reason: 3 }"],
  [
    { status: 'done', outcome: 'pass', resultRef: null },
    "{ status: 'done', outcome: 'pass', resultRef: null }",
  ],
  [{ status: 'error' }, "{ status: 'error' }"],
])('what is none is an error that says so: %o', (result, shown) => {
  expect(checkedResult(result)).toEqual({
    status: 'error',
    message: `run: expected a result such as { status: 'done', outcome: 'pass' } or { status: 'error', message: 'why' }, got ${shown}. Return one on every path.`,
  });
});

test('poison without a message is poison', () => {
  expect(checkedResult({ status: 'poison' })).toMatchObject({
    status: 'poison',
    message: expect.stringMatching(/^run: expected .*, got \{ status: 'poison' \}\./),
  });
});
