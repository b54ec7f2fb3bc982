import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { commitFiles, makeRepo, useTempFolder } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { CommitFileReader } from './commit-file-reader.ts';

const temporary = useTempFolder();

/** A repository with commits whose `a.yaml` has these texts, and a reader that counts what it parses. */
async function scene(texts: readonly string[], options: { knownBytesMax?: number } = {}) {
  const work = await makeRepo(join(temporary.path, randomUUID()));
  const commits: string[] = [];
  for (const [index, text] of texts.entries())
    commits.push(await commitFiles(work, { 'a.yaml': text, number: String(index) }));
  const parsed: string[] = [];
  const onParse: (() => void)[] = [];
  const reader = new CommitFileReader((file, content) => {
    const text = content.toString('utf8');
    parsed.push(text.slice(0, 10));
    for (const one of onParse) one();
    return text === 'bad' ? { problem: `${file} is bad` } : { text };
  }, options);
  const git = { folder: join(work.folder, '.git'), home: temporary.path };
  const read = async (indices: readonly number[], file = 'a.yaml') =>
    await reader.read(
      indices.map((index) => ({ commit: commits[index] ?? 'f'.repeat(40), file })),
      git,
    );
  return { parsed, onParse, read };
}

test('answers in order, parses the same content once, and remembers what has a meaning', async () => {
  const { parsed, read } = await scene(['one', 'bad', 'one', 'two']);
  const meanings = [{ text: 'one' }, { problem: 'a.yaml is bad' }, { text: 'one' }, { text: 'two' }];
  expect(await read([0, 1, 2, 3])).toEqual(meanings);
  expect(parsed.toSorted()).toEqual(['bad', 'one', 'two']);
  expect((await read([3, 2, 1, 0, 0])).slice(0, 4)).toEqual(meanings.toReversed());
  expect(parsed.toSorted()).toEqual(['bad', 'bad', 'one', 'two']);
});

test('a file that is not there or too large is not parsed', async () => {
  const { parsed, read } = await scene(['x'.repeat(64 * 1024 + 1)]);
  expect(await read([0, 7])).toEqual([
    { problem: 'a.yaml: expected at most 65536 bytes, got 65537' },
    { problem: 'expected a file a.yaml in the commit, got none' },
  ]);
  expect(parsed).toEqual([]);
});

test('a file that is empty is parsed as what it is, and a commit that is not there has none', async () => {
  const { parsed, read } = await scene(['']);
  expect(await read([0])).toEqual([{ text: '' }]);
  expect(parsed).toEqual(['']);
  const nothing = { problem: 'expected a file a.yaml in the commit, got none' };
  expect(await read([7])).toEqual([nothing]);
  expect(await read([7, 0])).toEqual([nothing, { text: '' }]);
});

test('others get their turn between each two files', async () => {
  const { onParse, read } = await scene(['one', 'two', 'three', 'four']);
  const order: string[] = [];
  onParse.push(() => {
    order.push('parse');
    setImmediate(() => order.push('others'));
  });
  await read([0, 1, 2, 3]);
  expect(order).toEqual(Array.from({ length: 4 }, () => ['parse', 'others']).flat());
});

test('what is remembered has a bound in bytes, and the oldest goes first', async () => {
  const texts = ['a', 'b', 'c'].map((letter) => letter.repeat(60_000));
  const { parsed, read } = await scene(texts, { knownBytesMax: 130_000 });
  await read([0, 1]);
  await read([0, 1]);
  expect(parsed).toHaveLength(2);
  await read([2]);
  await read([1, 2]);
  expect(parsed).toHaveLength(3);
  await read([0]);
  expect(parsed).toHaveLength(4);
});

test.each([
  ['120000', 'blob', 'a symbolic link (mode 120000); commit the text itself'],
  ['160000', 'commit', 'a submodule (mode 160000); commit the text itself'],
  ['40000', 'tree', 'a folder of that name'],
])('an entry of mode %s is no file, and named for what it is', async (mode, kind, got) => {
  const work = await makeRepo(join(temporary.path, randomUUID()));
  const commit = await commitFiles(work, { target: 'on: [refs/heads/*]\nrun: make\n' });
  const oid =
    kind === 'commit' ? commit : await work(['rev-parse', kind === 'blob' ? 'HEAD:target' : 'HEAD^{tree}']);
  const read = async (entry: string): Promise<unknown> => {
    const tree = await work(['mktree'], { input: `${entry}\ta.yaml\n` });
    const reader = new CommitFileReader((_, content) => ({ text: content.toString('utf8') }));
    const wanted = [{ commit: await work(['commit-tree', tree, '-m', 'x']), file: 'a.yaml' }];
    return (await reader.read(wanted, { folder: join(work.folder, '.git'), home: temporary.path }))[0];
  };
  expect(await read(`${mode} ${kind} ${oid}`)).toEqual({
    problem: `expected a file a.yaml in the commit, got ${got}`,
  });
  const text = await work(['rev-parse', 'HEAD:target']);
  expect(await read(`100755 blob ${text}`)).toEqual({ text: expect.stringContaining('run: make') });
});
