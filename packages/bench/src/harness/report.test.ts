import { expect, test } from 'vitest';
import { summarise } from '../measure/statistics.ts';
import { formatResult, resultOf } from './report.ts';
import type { Finding, Suite } from './suite.ts';

const suite: Suite = { name: 'drain', about: 'how fast', tasks: [], run: () => Promise.resolve([]) };
const finding: Finding = {
  name: 'no caps',
  unit: 'effects/s',
  sluice: summarise([60_000, 62_000, 61_000]),
  peers: { other: summarise([20_000]) },
  ratio: 3.05,
  ratioOf: 'sluice / other',
  target: { atLeast: 3 },
};
const about = {
  isQuick: true,
  machine: { cores: 2 },
  server: { server_version: '18.4', fsync: 'on' },
  seconds: 12,
};

test('a result leads with the first finding, and is met only if all are', () => {
  const missed = { ...finding, name: 'with caps', ratio: 1.9, target: { atLeast: 2 } };
  expect(resultOf(suite, [finding], about)).toMatchObject({
    suite: 'drain',
    ratio: 3.05,
    target: { atLeast: 3 },
    met: true,
  });
  expect(resultOf(suite, [finding, missed], about)).toMatchObject({
    ratio: 3.05,
    met: false,
    findings: [{ met: true }, { met: false }],
  });
  expect(() => resultOf(suite, [], about)).toThrow('got none');
});

test('a result as text', () => {
  expect(formatResult(suite, resultOf(suite, [finding], about))).toBe(
    [
      'drain (quick): how fast',
      '',
      'no caps',
      '  sluice  61000 effects/s, spread 3 % of 3 runs',
      '  other   20000 effects/s, one run',
      '  ratio 3.05 (sluice / other), target at least 3: met',
      '',
      'PostgreSQL 18.4, cores 2, 12 s',
      'fsync=on',
    ].join('\n'),
  );
});
