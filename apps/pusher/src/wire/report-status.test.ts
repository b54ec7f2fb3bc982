import { expect, test } from 'vitest';
import { encodeReport } from './report-status.ts';

const refs = [
  { name: Buffer.from('refs/heads/main'), reason: 'stale\n\u001b[2J' },
  { name: Buffer.from('refs/heads/x') },
];

test('with side-band the lines come first, then the report, then the end', () => {
  const capabilities = new Set(['report-status', 'side-band-64k']);
  expect(encodeReport(capabilities, { refs, lines: ['hello'] }).toString()).toBe(
    '000b\u0002hello\n' +
      '0056\u0001' +
      '000eunpack ok\n' +
      '002bng refs/heads/main stale\\u{a}\\u{1b}[2J\n' +
      '0014ok refs/heads/x\n' +
      '0000' +
      '0000',
  );
});

test('without side-band there is only the report', () => {
  expect(
    encodeReport(new Set(['report-status']), {
      unpackProblem: 'too many',
      refs: [],
      lines: ['x'],
    }).toString(),
  ).toBe('0014unpack too many\n0000');
});

test('a client that asked for no report gets none', () => {
  expect(encodeReport(new Set(), { refs, lines: ['x'] }).length).toBe(0);
});

test('a report larger than one packet is split into several', () => {
  const many = Array.from({ length: 5000 }, (_, n) => ({
    name: Buffer.from(`refs/heads/${n}`),
    reason: 'no',
  }));
  const bytes = encodeReport(new Set(['report-status', 'side-band-64k']), { refs: many, lines: [] });
  expect(bytes.toString('latin1', 0, 5)).toBe('fff0\u0001');
  expect(bytes.toString('latin1', bytes.length - 8)).toBe('00000000');
});
