import { expect, test } from 'vitest';
import { parseArguments } from './arguments.ts';

const SUITES = ['drain', 'latency'];

test('a suite and its flags, in any order', () => {
  expect(parseArguments(['--json', 'drain', '--quick'], SUITES)).toEqual({
    arguments: { suite: 'drain', isQuick: true, asJson: true, neverFail: false },
  });
  expect(parseArguments(['latency', '--no-fail'], SUITES)).toEqual({
    arguments: { suite: 'latency', isQuick: false, asJson: false, neverFail: true },
  });
});

test.each([
  [[], 'expected one suite, got none.'],
  [['drain', 'latency'], 'expected one suite, got drain, latency.'],
  [['speed'], 'expected one of drain, latency, got "speed".'],
  [['drain', '--fast'], 'expected one of --quick, --json, --no-fail, got "--fast".'],
  [['drain', '--toString'], 'expected one of --quick, --json, --no-fail, got "--toString".'],
])('%j is refused with what was expected', (words, problem) => {
  expect(parseArguments(words, SUITES)).toEqual({ problem });
});
