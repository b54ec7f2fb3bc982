import { describe, expect, it } from 'vitest';
import { LogPrinter } from './log-printer.ts';

function print(
  pieces: readonly (readonly [claim: bigint, attempt: number, bytes: string | Uint8Array, seq?: number])[],
  isTTY: boolean,
): string {
  const written: Buffer[] = [];
  const printer = new LogPrinter({ isTTY, write: (chunk) => written.push(Buffer.from(chunk)) });
  const last = new Map<bigint, number>();
  for (const [claimNumber, attempt, bytes, seq = (last.get(claimNumber) ?? 0) + 1] of pieces) {
    last.set(claimNumber, seq);
    printer.print({ claimNumber, attempt, seq, bytes: Buffer.from(bytes) });
  }
  printer.end();
  return Buffer.concat(written).toString('utf8');
}

describe('LogPrinter', () => {
  it('separates runs by a line of its own', () => {
    const pieces = [
      [7n, 1, 'one\n'],
      [7n, 1, 'cut'],
      [9n, 2, 'two\n'],
    ] as const;
    const expected = '--- attempt 1 (claim 7) ---\none\ncut\n--- attempt 2 (claim 9) ---\ntwo\n';
    expect(print(pieces, true)).toBe(expected);
    expect(print(pieces, false)).toBe(expected);
  });

  it('says why an attempt is there twice', () => {
    const pieces = [
      [7n, 1, 'one\n'],
      [9n, 1, 'one\n'],
      [11n, 2, 'two\n'],
    ] as const;
    expect(print(pieces, true)).toBe(
      '--- attempt 1 (claim 7) ---\none\n--- attempt 1 (claim 9), once more: it was handed back ---\none\n--- attempt 2 (claim 11) ---\ntwo\n',
    );
  });

  it('says where pieces are missing', () => {
    const pieces = [
      [7n, 1, 'one', 2],
      [7n, 1, ' more\n', 3],
      [7n, 1, 'end\n', 6],
      [9n, 2, 'again\n', 1],
    ] as const;
    const expected =
      '--- attempt 1 (claim 7) ---\n--- output was lost here: 1 piece ---\none more\n--- output was lost here: 2 pieces ---\nend\n--- attempt 2 (claim 9) ---\nagain\n';
    expect(print(pieces, true)).toBe(expected);
    expect(print(pieces, false)).toBe(expected);
  });

  it('gives a pipe the bytes, and a terminal nothing that it would obey', () => {
    const text = 'a\u001b[31mred\u001b[0m\u001b]0;title\u0007\u0008\u202e 10%\r20%\r\nend\n';
    expect(print([[1n, 1, text]], false)).toBe(`--- attempt 1 (claim 1) ---\n${text}`);
    expect(print([[1n, 1, text]], true)).toBe('--- attempt 1 (claim 1) ---\nared 10%\n20%\nend\n');
  });

  it('shows the same wherever the output was cut into pieces', () => {
    const whole = Buffer.from('é\u001b[1;31mred\u001b[0m\r\nx\ry\u001b]0;title\u0007 😀\n');
    const shown = print([[1n, 1, whole]], true);
    for (let first = 0; first <= whole.length; first += 1) {
      for (let second = first; second <= whole.length; second += 1) {
        const pieces = [whole.subarray(0, first), whole.subarray(first, second), whole.subarray(second)];
        expect(
          print(
            pieces.map((bytes) => [1n, 1, bytes] as const),
            true,
          ),
        ).toBe(shown);
      }
    }
  });
});
