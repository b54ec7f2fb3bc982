import { cpSync, existsSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  commitPush,
  loadServerKey,
  lockRepo,
  readRefs,
  registerServerKey,
  repoFolder,
  type RefEdit,
} from '@sluice/ref-store';
import { commitFiles, gitIn, makeRepo, useTempFolder, useTestDatabase } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { runCli } from './run-cli.ts';

const database = useTestDatabase();
const temporary = useTempFolder();
const dataDir = (): string => join(temporary.path, 'data');
const cli = (...args: string[]) =>
  runCli(args, {
    env: { DATABASE_URL: database.url, SLUICE_DATA_DIR: dataDir(), PATH: process.env['PATH'] },
  });

async function push(repoId: string, edits: readonly RefEdit[]): Promise<void> {
  const key = await loadServerKey(join(temporary.path, 'key'));
  await database.db.transaction().execute(async (trx) => {
    const repo = await lockRepo(trx, { repoId, create: { objectFormat: 'sha1' } });
    await commitPush(trx, { repo: repo!, edits, signer: null, key });
  });
}

/** A repository of two commits, as a pusher would have it: `main`, and `old` for the first one. */
async function makeStored(repoId: string): Promise<{ folder: string; commits: [string, string] }> {
  const work = await makeRepo(join(temporary.path, repoId.replace('/', '-')));
  const first = await commitFiles(work, { 'a.txt': 'one' });
  const second = await commitFiles(work, { 'a.txt': 'two', 'b.txt': repoId });
  const folder = repoFolder(dataDir(), repoId, 'sha1');
  await gitIn(temporary.path)(['clone', '--quiet', '--bare', work.folder, folder]);
  await push(repoId, [
    { name: 'refs/heads/main', expect: 'absent', to: second },
    { name: 'refs/heads/old', expect: 'absent', to: first },
  ]);
  return { folder, commits: [first, second] };
}

test('sluice repo check passes what is whole, names what is missing, and fails then', async () => {
  await makeStored('check/whole');
  await makeStored('check/lost');
  expect(await cli('repo', 'check', '--all')).toEqual({
    code: 0,
    stdout: 'check/lost: 2 refs, nothing is missing\ncheck/whole: 2 refs, nothing is missing\n',
    stderr: '',
  });
  const lost = repoFolder(dataDir(), 'check/lost', 'sha1');
  rmSync(lost, { recursive: true });
  const checked = await cli('repo', 'check', '--all');
  expect(checked.code).toBe(1);
  expect(checked.stdout).toMatch(
    /^check\/lost: 2 refs, 2 without their object\n {2}refs\/heads\/main names [0-9a-f]{40}, which is missing\n {2}refs\/heads\/old names [0-9a-f]{40}, which is missing\n {2}folder: \S+\ncheck\/whole: 2 refs, nothing is missing\n$/,
  );
  expect(checked.stderr).toBe(
    `sluice: 1 of 2 repositories lacks objects\n  next: Bring them back from a backup or a clone, as docs/operating.md says; or set SLUICE_DATA_DIR, if ${dataDir()} is not the pusher's.\n`,
  );
  expect((await cli('repo', 'check', 'check/whole')).code).toBe(0);
});

test('with --deep it looks for what no ref names as well', async () => {
  const { folder, commits } = await makeStored('check/deep');
  const blob = await gitIn(folder)(['rev-parse', `${commits[1]}:b.txt`]);
  rmSync(join(folder, 'objects', blob.slice(0, 2), blob.slice(2)));
  expect((await cli('repo', 'check', 'check/deep')).code).toBe(0);
  const checked = await cli('repo', 'check', 'check/deep', '--deep');
  expect(checked.code).toBe(1);
  expect(checked.stdout).toContain(`what the refs reach is not whole: missing blob object '${blob}'`);
});

test('refs below refs/replace/, which any writer may push, neither hide what is missing nor make what is there seem lost', async () => {
  const { folder, commits } = await makeStored('check/replaced');
  const disk = gitIn(folder);
  const check = async () => await cli('repo', 'check', 'check/replaced', '--deep');
  const blob = await disk(['rev-parse', `${commits[1]}:b.txt`]);
  const other = await disk(['rev-parse', `${commits[1]}:a.txt`]);
  const remove = (oid: string): void => rmSync(join(folder, 'objects', oid.slice(0, 2), oid.slice(2)));
  const replace = (places: [oid: string, by: string][]): void =>
    writeFileSync(
      join(folder, 'packed-refs'),
      places.map(([oid, by]) => `${by} refs/replace/${oid}\n`).join(''),
    );
  replace([
    [commits[1], '1'.repeat(40)],
    [blob, '2'.repeat(40)],
  ]);
  expect(await check()).toMatchObject({
    code: 0,
    stdout: 'check/replaced: 2 refs, nothing is missing\n',
  });

  replace([
    [commits[0], commits[1]],
    [blob, other],
  ]);
  remove(blob);
  expect((await check()).stdout).toContain(`what the refs reach is not whole: missing blob object '${blob}'`);
  remove(commits[0]);
  expect((await check()).stdout).toContain(`refs/heads/old names ${commits[0]}, which is missing`);
});

test('away from the data folder it says so, instead of taking everything for lost', async () => {
  await makeStored('check/here');
  rmSync(dataDir(), { recursive: true });
  const checked = await cli('repo', 'check', 'check/here');
  expect(checked).toMatchObject({ code: 1, stdout: '' });
  expect(checked.stderr).toContain(`expected the data folder of a pusher, got ${dataDir()}`);
  expect((await cli('repo', 'check')).stderr).toContain('expected either a repository or --all');
  expect((await cli('repo', 'show', 'check/here')).stdout).not.toContain('packs');
});

test('sluice repo show and list say what a repository takes, when it was maintained and whether it is whole', async () => {
  const { folder } = await makeStored('zz/shown');
  await gitIn(folder)(['repack', '--quiet', '-a', '-d']);
  const shown = async (): Promise<string> => (await cli('repo', 'show', 'zz/shown')).stdout;
  expect(await shown()).toMatch(/\nrefs {8}2\nfolder {6}\S+\npacks {7}1, \d+ B\nmaintained {2}not yet\n$/);
  writeFileSync(join(folder, 'sluice-maintained'), '');
  const then = new Date(Date.UTC(2026, 4, 3, 2, 1, 0));
  utimesSync(join(folder, 'sluice-maintained'), then, then);
  writeFileSync(join(folder, 'sluice-lost-pushes'), 'push 1f (version 7) is not in the database\n');
  expect(await shown()).toMatch(
    /maintained {2}2026-05-03 02:01:00Z\nlost {8}push 1f \(version 7\) is not in the database\n$/,
  );
  const listed = await cli('repo', 'list', '--limit', '1', '--after', 'zy');
  expect(listed.stdout).toMatch(
    /^REPOSITORY +PUSHES +LAST PUSH +PACKS +SIZE +MAINTAINED\nzz\/shown +1 +\S+ \S+Z +1 +\d+ B +2026-05-03 02:01:00Z\n$/,
  );
  expect((await cli('repo', 'list', '--after', 'zzz')).stdout).toBe('there are no repositories after zzz\n');
  await push('zz/unseen', []);
  expect((await cli('repo', 'list', '--limit', '1', '--after', 'zy')).stdout).toMatch(
    /\nand more: sluice repo list --after \S+\n$/,
  );
  rmSync(folder, { recursive: true });
  expect(await shown()).toMatch(
    /\nrefs {8}2, 2 without their object: withheld\nfolder {6}\S+\npacks {7}none: the folder is gone\n/,
  );
});

test('sluice repo drop-lost deletes the refs that lost their objects, by a push that op verify passes', async () => {
  const { folder, commits } = await makeStored('check/drop');
  await registerServerKey(database.db, await loadServerKey(join(temporary.path, 'key')));
  cpSync(join(temporary.path, 'key'), join(dataDir(), 'server-key.pem'));
  expect((await cli('repo', 'drop-lost', 'check/drop', '--yes')).stdout).toBe(
    'check/drop: every object that a ref names is there; nothing was deleted\n',
  );
  rmSync(join(folder, 'objects', commits[1].slice(0, 2), commits[1].slice(2)));
  const asked = await cli('repo', 'drop-lost', 'check/drop');
  expect(asked.stdout).toBe(`check/drop: would delete\n  refs/heads/main ${commits[1]}\n`);
  expect(asked).toMatchObject({ code: 1, stderr: expect.stringContaining('nothing was deleted') });
  expect(await readRefs(database.db, 'check/drop')).toHaveLength(2);
  const dropped = await cli('repo', 'drop-lost', 'check/drop', '--yes');
  expect(dropped).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^check\/drop: push [0-9a-f]{40} deleted\n/),
  });
  expect(await readRefs(database.db, 'check/drop')).toEqual([{ name: 'refs/heads/old', oid: commits[0] }]);
  expect((await cli('op', 'verify', 'check/drop')).stdout).toBe('check/drop: 2 pushes, all fits\n');
});

test('drop-lost needs the key of the pusher, and makes none', async () => {
  await makeStored('check/key');
  const refused = await cli('repo', 'drop-lost', 'check/key', '--yes');
  expect(refused.stderr).toContain(
    `cannot read the pusher's key ${join(dataDir(), 'server-key.pem')}: ENOENT`,
  );
  expect(existsSync(join(dataDir(), 'server-key.pem'))).toBe(false);
});

test('with the data folder of another installation, in which everything seems lost, drop-lost deletes nothing', async () => {
  const { folder } = await makeStored('check/elsewhere');
  rmSync(folder, { recursive: true });
  const { fingerprint } = await loadServerKey(join(dataDir(), 'server-key.pem'));
  const refused = await cli('repo', 'drop-lost', 'check/elsewhere', '--yes');
  expect(refused).toMatchObject({ code: 1, stdout: '' });
  expect(refused.stderr).toContain(`got ${dataDir()} and ${fingerprint}, which is not in use`);
  expect(await readRefs(database.db, 'check/elsewhere')).toHaveLength(2);
});
