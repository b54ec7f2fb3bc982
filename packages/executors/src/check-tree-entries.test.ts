import { describe, expect, it } from 'vitest';
import { createTreeChecker, type TreeEntry } from './check-tree-entries.ts';

const LIMITS = { entriesMax: 10, bytesMax: 1000 };

function entry(path: string, over: Partial<TreeEntry> = {}): TreeEntry {
  return { mode: '100644', kind: 'blob', size: 1, path: Buffer.from(path).toString('latin1'), ...over };
}
const tree = (path: string): TreeEntry => entry(path, { mode: '040000', kind: 'tree', size: 0 });
const link = (path: string): TreeEntry => entry(path, { mode: '120000' });

function checkAll(entries: readonly TreeEntry[]): void {
  entries.forEach(createTreeChecker(LIMITS));
}

describe('createTreeChecker', () => {
  it('lets ordinary trees through', () => {
    const submodule = entry('vendor', { mode: '160000', kind: 'commit', size: 0 });
    checkAll([
      entry('-d'),
      entry('.gitignore'),
      entry('git'),
      entry('a..b'),
      tree('ä'),
      entry('ä/ü\n'),
      link('l'),
      submodule,
    ]);
  });

  it.each([
    ['..'],
    ['.'],
    [''],
    ['.git'],
    ['.GiT'],
    ['.git. .'],
    ['git~1'],
    ['.git::$INDEX_ALLOCATION'],
    ['.g\u200cit'],
    ['/etc/passwd'],
    ['a/b'],
    ['../x'],
    ['x'.repeat(256)],
  ])('refuses the name %j', (name) => {
    expect(() => checkAll([entry(name)])).toThrow('cannot be checked out');
  });

  it('refuses duplicates, and paths through a link, a file or a submodule', () => {
    expect(() => checkAll([entry('a'), entry('a')])).toThrow('there twice');
    expect(() => checkAll([link('a'), entry('a/b')])).toThrow('not inside a folder');
    expect(() => checkAll([entry('a'), tree('a')])).toThrow('there twice');
    expect(() => checkAll([entry('a', { mode: '160000', kind: 'commit' }), entry('a/b')])).toThrow(
      'not inside a folder',
    );
    expect(() => checkAll([tree('d'), tree('d/.git')])).toThrow("git's own");
  });

  it('refuses a path that the system has no name for, and takes the longest that it has', () => {
    const folders = Array.from({ length: 39 }, (_, depth) =>
      Array(depth + 1)
        .fill('d'.repeat(99))
        .join('/'),
    );
    const check = createTreeChecker({ entriesMax: 100, bytesMax: 1000 });
    folders.forEach((path) => check(tree(path)));
    const deepest = folders.at(-1)!;
    check(entry(`${deepest}/${'f'.repeat(4095 - deepest.length - 1)}`));
    expect(() => check(entry(`${deepest}/${'f'.repeat(4095 - deepest.length)}`))).toThrow(
      'longer than a path',
    );
  });

  it('refuses unknown modes, too many entries and too many bytes', () => {
    expect(() => checkAll([entry('a', { mode: '010644' })])).toThrow('unknown mode');
    expect(() => checkAll(Array.from({ length: 11 }, (_, i) => entry(`f${i}`)))).toThrow('limit of 10');
    expect(() => checkAll([entry('a', { size: 1001 })])).toThrow('limit of 1000 bytes');
  });
});
