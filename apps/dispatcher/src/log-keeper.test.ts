import fc from 'fast-check';
import { expect, it } from 'vitest';
import { createLogKeeper } from './log-keeper.ts';

it('keeps everything within its limit, and the beginning and the end beyond it, however it is cut into pieces', () => {
  fc.assert(
    fc.property(
      fc.array(fc.uint8Array({ maxLength: 30 })),
      fc.integer({ min: 1, max: 20 }),
      (pieces, half) => {
        const keeper = createLogKeeper(2 * half);
        const all = Buffer.concat(pieces);
        pieces.forEach((piece) => keeper.add(piece));
        const missing = all.length - 2 * half;
        const expected =
          missing <= 0
            ? all
            : Buffer.concat([
                all.subarray(0, half),
                Buffer.from(`\n[sluice: ${missing} bytes are left out here]\n`),
                all.subarray(-half),
              ]);
        expect(keeper.read()).toEqual(expected);
        expect(keeper.bytesSeen).toBe(all.length);
      },
    ),
  );
});

it('holds no more memory than twice its limit', () => {
  const keeper = createLogKeeper(1_000);
  for (let i = 0; i < 10_000; i += 1) keeper.add(new Uint8Array(100));
  expect(keeper.read().length).toBeLessThan(1_100);
  expect(keeper.bytesSeen).toBe(1_000_000);
});
