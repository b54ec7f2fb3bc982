import fc from 'fast-check';
import { expect, test } from 'vitest';
import { changeLines } from './ref-lines.ts';

const name = fc.oneof(
  fc.constantFrom('refs/heads/a', 'refs/heads/a/b', 'refs/heads/a-b', 'refs/heads/aa', 'refs/tags/v1'),
  fc.string({ unit: fc.constantFrom('a', 'b', '/', '-', 'é', '\u{10ffff}'), minLength: 1, maxLength: 6 }),
);
const value = fc.integer({ min: 100, max: 999 }).map(String);

function linesOf(refs: ReadonlyMap<string, string>): Buffer {
  const sorted = [...refs].toSorted(([a], [b]) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  return Buffer.from(sorted.map(([key, oid]) => `${oid} ${key}\n`).join(''));
}

test('lines with changes are the lines of the changed refs', () => {
  fc.assert(
    fc.property(
      fc.dictionary(name, value, { maxKeys: 30 }),
      fc.dictionary(name, fc.option(value), { maxKeys: 10 }),
      (refs, changes) => {
        const before = new Map(Object.entries(refs));
        const after = new Map(before);
        for (const [key, oid] of Object.entries(changes)) {
          if (oid === null) after.delete(key);
          else after.set(key, oid);
        }
        const changed = changeLines(
          linesOf(before),
          4,
          Object.entries(changes).map(([key, oid]) => ({
            name: Buffer.from(key),
            line: oid === null ? null : Buffer.from(`${oid} ${key}\n`),
          })),
        );
        expect(changed.toString()).toBe(linesOf(after).toString());
      },
    ),
  );
});
