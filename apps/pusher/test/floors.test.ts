import { globSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { expect, test } from 'vitest';

const SOURCE = join(import.meta.dirname, '../src');

/** From the ground up. A file imports from its own folder and from lower floors; neighbours do not know each other. */
const FLOORS = [
  ['http-error.ts', 'in-turns.ts', 'keyed-turns.ts', 'pusher-metrics.ts', 'settings.ts'],
  ['wire'],
  ['git'],
  ['store'],
  ['push'],
  ['adopted', 'http'],
  ['start-pusher.ts'],
  ['serve.ts'],
  ['main.ts'],
];

/** The folder of a file below `src`, or the file itself. A test stands where what it tests does. */
const placeOf = (path: string): string => path.replace(/\.(?:db\.)?test\.ts$/, '.ts').split('/')[0]!;

const floorOf = (path: string): number => FLOORS.findIndex((floor) => floor.includes(placeOf(path)));

/** Every import of one file by another, `export … from` and imports of types included. */
function imports(): { from: string; to: string }[] {
  return globSync('**/*.ts', { cwd: SOURCE }).flatMap((from) =>
    [...readFileSync(join(SOURCE, from), 'utf8').matchAll(/(?:\bfrom |\bimport[ (])'(\.[^']+)'/g)].map(
      ([, path = '']) => ({ from, to: posix.join(posix.dirname(from), path) }),
    ),
  );
}

test('every file has its floor, and imports nothing from above', () => {
  const known = imports().filter(({ to }) => !to.startsWith('../test/'));
  expect(known.length).toBeGreaterThan(400);
  const wrong = known.filter(({ from, to }) => {
    if (floorOf(from) === -1 || floorOf(to) === -1) return true;
    return placeOf(from) !== placeOf(to) && floorOf(to) >= floorOf(from);
  });
  expect(wrong.map(({ from, to }) => `${from} imports ${to}`)).toEqual([]);
});
