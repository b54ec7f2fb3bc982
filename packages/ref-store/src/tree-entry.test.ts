import { expect, test } from 'vitest';
import { isFileMode, treeEntry } from './tree-entry.ts';

const [A, B] = ['0a'.repeat(20), '20'.repeat(20)] as [string, string];

/** A tree whose OIDs hold what ends a name and what ends a mode. */
const TREE = Buffer.concat(
  [
    ['100644 a b', A],
    ['120000 link', B],
    ['40000 folder', A],
  ].flatMap(([head, oid]) => [Buffer.from(`${head}\0`), Buffer.from(oid!, 'hex')]),
);

test('an entry is found by its whole name', () => {
  expect(treeEntry(TREE, 'a b', 20)).toEqual({ mode: '100644', oid: A });
  expect(treeEntry(TREE, 'link', 20)).toEqual({ mode: '120000', oid: B });
  for (const name of ['a', 'b', 'folde', '']) expect(treeEntry(TREE, name, 20)).toBeUndefined();
  expect(treeEntry(Buffer.from('100644 cut off'), 'cut off', 20)).toBeUndefined();
});

test('links, submodules and folders are no files', () => {
  expect(['100644', '100664', '100755'].filter(isFileMode)).toHaveLength(3);
  expect(['120000', '160000', '40000', '', undefined].filter(isFileMode)).toEqual([]);
});
