import { expect, test } from 'vitest';
import { decodePkt } from './pkt-line.ts';
import { encodeReport, refLine } from './report-status.ts';

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

test.each([
  ['a name that leaves little room', 65_400, 65_515],
  ['a name as long as a line', 65_516, 65_515],
  ['a name that no line could hold', 70_000, 65_515],
])('of %s, and its reason, a line says as much as a packet holds', (_, length, expected) => {
  const name = Buffer.alloc(length, 'n');
  const reason = 'r'.repeat(2000);
  const bytes = encodeReport(new Set(['report-status']), { refs: [{ name, reason }], lines: [] });
  const unpack = decodePkt(bytes, 0)!;
  const line = decodePkt(bytes, unpack.next)!;
  expect(line.packet).toHaveLength(expected + 1);
  expect(line.packet?.toString('latin1')).toBe(`ng ${name.toString()} ${reason}`.slice(0, expected) + '\n');
  expect(decodePkt(bytes, line.next)?.packet).toBeNull();
});

test('a reason is not cut off in the middle of a character', () => {
  const said = (nameLength: number): string => {
    const name = Buffer.alloc(nameLength, 'n');
    return refLine({ name, reason: 'a€€€€€' }).toString('utf8', 'ng '.length + nameLength);
  };
  expect([65_499, 65_500, 65_501].map(said)).toEqual([' a€€€€', ' a€€€', ' a€€€']);
});
