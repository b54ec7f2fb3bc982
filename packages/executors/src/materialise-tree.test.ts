import { lstat, mkdir, mkdtemp, readdir, readFile, readlink, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { UnsafeTreeError } from './check-tree-entries.ts';
import { materialiseTree } from './materialise-tree.ts';
import { runGit } from './run-git.ts';

describe.each(['sha1', 'sha256'] as const)('materialiseTree from a %s repository', (format) => {
  let root: string;
  let gitDir: string;
  let blob: string;
  beforeAll(async () => {
    root = await mkdtemp(join(tmpdir(), 'sluice-tree-'));
    gitDir = join(root, 'repo.git');
    await runGit({ args: ['init', '--quiet', '--bare', `--object-format=${format}`, gitDir] });
    blob = await store('blob', 'hello\n');
  });
  afterAll(() => rm(root, { recursive: true, force: true }));

  const store = async (kind: string, bytes: string | Uint8Array): Promise<string> =>
    (
      await runGit({
        gitDir,
        args: ['hash-object', '-w', '--stdin', '--literally', '-t', kind],
        input: bytes,
      })
    ).trim();
  /** A tree object with exactly these names, in this order, whatever git thinks of them. */
  const rawTree = (entries: readonly [mode: string, name: string, oid: string][]): Promise<string> =>
    store(
      'tree',
      Buffer.concat(
        entries.flatMap(([mode, name, oid]) => [Buffer.from(`${mode} ${name}\0`), Buffer.from(oid, 'hex')]),
      ),
    );
  const emptyFolder = async (): Promise<string> => {
    const parent = await mkdtemp(join(root, 'run-'));
    await mkdir(join(parent, 'work'));
    return join(parent, 'work');
  };

  it('refuses a tree whose few objects name more files than anybody can list', async () => {
    let treeOid = await rawTree([['100644', 'x', blob]]);
    for (let depth = 0; depth < 12; depth += 1) {
      const [inner, name] = [treeOid, 'y'.repeat(100)];
      treeOid = await rawTree(Array.from({ length: 10 }, (_, n) => ['40000', `${n}${name}`, inner]));
    }
    const into = await emptyFolder();
    await expect(materialiseTree({ gitDir, treeOid, into })).rejects.toThrow(UnsafeTreeError);
    expect(await readdir(into)).toEqual([]);
  });

  it('writes bytes, modes, links and submodules as they are stored, and nothing else', async () => {
    const attributes = await store('blob', '* text eol=crlf ident\n*.bin filter=lfs\n');
    const ident = await store('blob', '$Id$\r\nx\n');
    const target = await store('blob', '/etc/passwd');
    const commit = blob;
    const inner = await rawTree([['100755', 'run.sh', blob]]);
    const treeOid = await rawTree([
      ['100644', '-rf', blob],
      ['100644', '.gitattributes', attributes],
      ['100644', 'ident.txt', ident],
      ['120000', 'link', target],
      ['40000', 'sub', inner],
      ['160000', 'vendor', commit],
    ]);
    // A filter in the repository's configuration must not run either.
    await runGit({ gitDir, args: ['config', 'filter.lfs.smudge', `touch ${root}/smudge-ran; cat`] });
    const into = await emptyFolder();
    await materialiseTree({ gitDir, treeOid, into });
    expect((await readdir(into)).toSorted()).toEqual([
      '-rf',
      '.gitattributes',
      'ident.txt',
      'link',
      'sub',
      'vendor',
    ]);
    expect(await readFile(join(into, 'ident.txt'), 'utf8')).toBe('$Id$\r\nx\n');
    expect(await readFile(join(into, '-rf'), 'utf8')).toBe('hello\n');
    expect(await readlink(join(into, 'link'))).toBe('/etc/passwd');
    expect((await lstat(join(into, 'sub/run.sh'))).mode & 0o111).toBe(0o111);
    expect(await readdir(join(into, 'vendor'))).toEqual([]);
    expect(await readdir(join(into, '..'))).toEqual(['work']);
    expect(await readdir(root)).not.toContain('smudge-ran');
  });

  it.each([
    ['..', 'not a file name'],
    ['.git', "git's own"],
    ['.GIT', "git's own"],
    ['../../escaped', 'not inside a folder'],
    ['/tmp/sluice-escaped', 'not inside a folder'],
    ['a/b', 'not inside a folder'],
  ])('refuses a tree with the name %j before it writes anything', async (name, what) => {
    const into = await emptyFolder();
    const treeOid = await rawTree([
      ['100644', '1', blob],
      ['100644', name, blob],
    ]);
    await expect(materialiseTree({ gitDir, treeOid, into })).rejects.toThrow(what);
    expect(await readdir(into)).toEqual([]);
    expect(await readdir(join(into, '..'))).toEqual(['work']);
  });

  it('refuses a file below a link and names that are there twice', async () => {
    const into = await emptyFolder();
    const target = await store('blob', '/tmp');
    const below = await rawTree([['100644', 'b', blob]]);
    const throughLink = await rawTree([
      ['120000', 'a', target],
      ['40000', 'a', below],
    ]);
    await expect(materialiseTree({ gitDir, treeOid: throughLink, into })).rejects.toThrow('there twice');
    const slash = await rawTree([
      ['120000', 'a', target],
      ['100644', 'a/b', blob],
    ]);
    await expect(materialiseTree({ gitDir, treeOid: slash, into })).rejects.toThrow('not inside a folder');
  });

  it('refuses a tree that unfolds to more entries than the limit', async () => {
    let treeOid = await rawTree(Array.from({ length: 10 }, (_, i) => ['100644', `f${i}`, blob]));
    for (let level = 0; level < 3; level += 1) {
      const inner = treeOid;
      treeOid = await rawTree(Array.from({ length: 10 }, (_, i) => ['40000', `d${i}`, inner]));
    }
    const limits = { entriesMax: 500, bytesMax: 1e9 };
    await expect(materialiseTree({ gitDir, treeOid, into: await emptyFolder(), limits })).rejects.toThrow(
      'limit of 500',
    );
  });

  it('says so when the tree is missing, the folder is not empty, or the OID is an option', async () => {
    const into = await emptyFolder();
    const missing = '0'.repeat(format === 'sha1' ? 40 : 64);
    await expect(materialiseTree({ gitDir, treeOid: missing, into })).rejects.toThrow('ls-tree');
    await expect(materialiseTree({ gitDir, treeOid: '--all', into })).rejects.toThrow('expected an OID');
    await writeFile(join(into, 'x'), '');
    await expect(materialiseTree({ gitDir, treeOid: missing, into })).rejects.toThrow(
      'expected an empty folder',
    );
  });
});
