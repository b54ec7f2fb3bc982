import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { commitFiles, gitIn } from '@sluice/testkit';
import { expect, test, vi } from 'vitest';
import { useAdopted } from './use-adopted.ts';

// Each push starts a program.
vi.setConfig({ testTimeout: 180_000 });
const adopted = useAdopted();

/** Every file of a bare repository that is not an object, with its content and mode. */
function contentsOf(folder: string): Record<string, string> {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(
    (name) => !name.startsWith('objects') && lstatSync(join(folder, name)).isFile(),
  );
  return Object.fromEntries(
    names.map((name) => {
      const path = join(folder, name);
      return [name, `${(lstatSync(path).mode & 0o777).toString(8)} ${readFileSync(path, 'utf8')}`];
    }),
  );
}

test('removed, the hook leaves a plain repository with its other hooks, and the refs of the last push', async () => {
  const { bare, work, push, install, known, onDisk, writeHook } = await adopted.begin();
  writeHook('pre-receive', 'exit 0');
  writeHook('post-receive', 'exit 0');
  await work(['push', '--quiet', bare.folder, 'main']);
  await bare(['pack-refs', '--all']);
  const before = contentsOf(bare.folder);
  expect((await install()).code).toBe(0);
  await commitFiles(work, { 'a.txt': 'next' });
  expect((await push(['origin', 'main'])).code).toBe(0);

  const removed = await adopted.cli(['hook', 'remove', bare.folder]);
  expect(removed).toMatchObject({ code: 0, stderr: '' });
  expect(removed.stdout).toContain('is a plain repository again');
  const { ['packed-refs']: packedBefore, ...filesBefore } = before;
  const { ['packed-refs']: packedAfter, ...filesAfter } = contentsOf(bare.folder);
  expect(filesAfter).toEqual(filesBefore);
  expect(packedAfter).not.toBe(packedBefore);
  expect(await onDisk()).toEqual(await known());
  expect(existsSync(join(bare.folder, 'sluice'))).toBe(false);

  // Stock git again, without Sluice.
  const last = await commitFiles(work, { 'a.txt': 'last' });
  expect((await push(['origin', 'main', 'main:plain'])).stderr).not.toContain('remote: push');
  expect(await onDisk()).toEqual({ 'refs/heads/main': last, 'refs/heads/plain': last });
  expect(await known()).not.toEqual(await onDisk());
  expect(await adopted.cli(['hook', 'remove', bare.folder])).toMatchObject({ code: 1 });

  // Adopted once more, what was pushed in between is for whoever installs it to say.
  const refused = await install();
  expect(refused.stderr).toContain('with other refs: 2 differ, such as refs/heads/main');
  expect(contentsOf(bare.folder)).toMatchObject(filesBefore);
  expect((await install('--replace')).code).toBe(0);
  expect(await known()).toEqual(await onDisk());
  expect(await known()).toEqual({ 'refs/heads/main': last, 'refs/heads/plain': last });
});

test('installed twice it is there once, with the newer settings, and refs that lag behind are brought up to date', async () => {
  const { repoId, bare, work, push, install, known, onDisk } = await adopted.begin();
  await work(['push', '--quiet', bare.folder, 'main']);
  expect((await install()).code).toBe(0);
  const once = contentsOf(bare.folder);
  const again = await install();
  expect(again).toMatchObject({ code: 0, stderr: '' });
  expect(again.stdout).not.toMatch(/push [0-9a-f]{40}/);
  expect(contentsOf(bare.folder)).toEqual(once);
  await bare(['symbolic-ref', 'HEAD', 'refs/heads/next']);
  expect((await install('--admin', 'lead')).code).toBe(0);
  expect(readFileSync(join(bare.folder, 'sluice/env'), 'utf8')).toContain("SLUICE_ADMINS='lead'\n");
  expect((await adopted.cli(['repo', 'show', repoId])).stdout).toMatch(
    /head +refs\/heads\/next\npushes +1\n/,
  );
  expect((await push(['origin', 'main:next'])).code).toBe(0);
  expect(readFileSync(join(bare.folder, 'HEAD'), 'utf8')).toBe('ref: refs/heads/next\n');
  expect(await onDisk()).toEqual(await known());
});

test('an installation that was cut off refuses pushes, and is finished by another, or removed', async () => {
  const { repoId, bare, work, push, install, known, onDisk } = await adopted.begin();
  await work(['push', '--quiet', bare.folder, 'main']);
  await bare(['pack-refs', '--all']);
  const [before, plain] = [await onDisk(), contentsOf(bare.folder)];
  await install();
  // As after a kill between the hooks and the import.
  const cutOff = async (): Promise<void> => {
    const { db } = adopted.database;
    for (const table of ['reflog', 'ref', 'op_record', 'small_object', 'repo'] as const)
      await db.deleteFrom(table).where('repo_id', '=', repoId).execute();
    rmSync(join(bare.folder, 'sluice/repo'));
  };
  await cutOff();
  expect((await push(['origin', 'main:other'])).stderr).toContain('only half taken over by Sluice');
  expect(await onDisk()).toEqual(before);
  expect((await install()).stdout).toMatch(/: push [0-9a-f]{40} has its refs\n/);
  expect(await known()).toEqual(before);
  expect((await push(['origin', 'main:other'])).code).toBe(0);
  await cutOff();
  expect(await adopted.cli(['hook', 'remove', bare.folder])).toMatchObject({ code: 0, stderr: '' });
  expect({ ...contentsOf(bare.folder), 'packed-refs': '' }).toEqual({ ...plain, 'packed-refs': '' });
});

test('an installation that fails leaves the repository as it was', async () => {
  const { repoId, bare, work, install } = await adopted.begin();
  await work(['push', '--quiet', bare.folder, 'main']);
  await bare(['pack-refs', '--all']);
  const before = contentsOf(bare.folder);
  await adopted.database.db.insertInto('repo').values({ repo_id: repoId, object_format: 'sha256' }).execute();
  expect((await install()).stderr).toContain('expected a sha256 repository for');
  expect(contentsOf(bare.folder)).toEqual(before);
  await expect(
    adopted.cli(['hook', 'install', bare.folder, '--repo', repoId], {
      DATABASE_URL: 'postgres://127.0.0.1:1/x',
      SLUICE_DATABASE_WAIT_MS: '0',
    }),
  ).resolves.toMatchObject({ code: 1 });
  expect(contentsOf(bare.folder)).toEqual(before);
});

test('an installation waits for a repository that another holds as long as any transaction, and says so then', async () => {
  const { repoId, bare, work, install } = await adopted.begin();
  await work(['push', '--quiet', bare.folder, 'main']);
  const { db } = adopted.database;
  await db.insertInto('repo').values({ repo_id: repoId }).execute();
  await db.transaction().execute(async (holder) => {
    await holder.selectFrom('repo').select('repo_id').where('repo_id', '=', repoId).forUpdate().execute();
    expect(await install()).toMatchObject({ code: 1, stderr: expect.stringContaining('lock timeout') });
  });
  expect(await install()).toMatchObject({ code: 0 });
});

test('what cannot be adopted is refused with what to do', async () => {
  const { bare, work, install, writeHook, repoId } = await adopted.begin();
  await work(['push', '--quiet', bare.folder, 'main']);
  const attempt = async (path: string, ...more: string[]): Promise<string> => {
    const { code, stderr } = await adopted.cli(['hook', 'install', path, '--repo', repoId, ...more]);
    expect(code).toBe(1);
    return stderr;
  };
  expect(await attempt(work.folder)).toContain(`got ${work.folder}, in which git finds none`);
  expect(await attempt(join(work.folder, '.git'))).toContain(
    'expected a bare repository, got one with a work tree',
  );
  expect(await attempt(join(adopted.folder, 'nowhere'))).toContain('got none at');

  const misnamed = await adopted.cli(['hook', 'install', bare.folder, '--repo', 'acme/a@b']);
  expect(misnamed.code).toBe(1);
  expect(misnamed.stderr).toContain('got acme/a@b, which no dispatcher could fetch from');

  writeHook('proc-receive', 'exit 1');
  expect(await attempt(bare.folder)).toContain("one that is not Sluice's");
  rmSync(join(bare.folder, 'hooks/proc-receive'));

  await bare(['update-ref', 'refs/heads/a\u200bb', 'refs/heads/main']);
  expect(await attempt(bare.folder)).toContain('contains the unprintable character U+200B');
  await bare(['update-ref', '-d', 'refs/heads/a\u200bb']);

  await bare(['symbolic-ref', 'refs/heads/alias', 'refs/heads/main']);
  expect(await attempt(bare.folder)).toContain('got refs/heads/alias, which names another ref');
  await bare(['symbolic-ref', '--delete', 'refs/heads/alias']);

  mkdirSync(join(adopted.folder, 'shared-hooks'));
  await bare(['config', 'core.hooksPath', join(adopted.folder, 'shared-hooks')]);
  expect(await attempt(bare.folder)).toContain('expected hooks inside');
  await bare(['config', '--unset', 'core.hooksPath']);

  await bare(['worktree', 'add', '--quiet', join(adopted.folder, 'tree'), 'main']);
  expect(await attempt(bare.folder)).toContain('linked work trees');
  await bare(['worktree', 'remove', join(adopted.folder, 'tree')]);

  writeFileSync(join(bare.folder, 'refs/heads/broken'), `${'1'.repeat(40)}\n`);
  expect(await attempt(bare.folder)).toContain('git finds fault with the refs');
  rmSync(join(bare.folder, 'refs/heads/broken'));
  expect(existsSync(join(bare.folder, 'sluice'))).toBe(false);
  expect((await install()).code).toBe(0);
});

test('one name is one repository: another folder cannot have it, and a folder cannot have two', async () => {
  const one = await adopted.begin();
  const other = await adopted.begin();
  expect((await one.install()).code).toBe(0);
  const same = await adopted.cli(['hook', 'install', other.bare.folder, '--repo', one.repoId]);
  expect(same.stderr).toContain(`expected ${one.repoId} to be adopted nowhere else, got ${one.bare.folder}`);
  const second = await adopted.cli(['hook', 'install', one.bare.folder, '--repo', other.repoId]);
  expect(second.stderr).toContain(`expected ${one.repoId}, as which`);
  // A folder that was moved is found again.
  const moved = join(adopted.folder, 'moved.git');
  await one.work(['push', '--quiet', one.bare.folder, 'main']);
  renameSync(one.bare.folder, moved);
  expect(await adopted.cli(['hook', 'install', moved, '--repo', one.repoId])).toMatchObject({
    code: 0,
    stderr: '',
  });
  symlinkSync(moved, one.bare.folder);
  await commitFiles(one.work, { 'a.txt': 'next' });
  expect((await one.push(['origin', 'main'])).code).toBe(0);
  expect(await gitIn(moved)(['rev-parse', 'main'])).toBe(await one.work(['rev-parse', 'main']));
});

test('without its parts an adopted repository takes no push', async () => {
  const { bare, push, install, onDisk } = await adopted.begin();
  await install();
  const hooks = join(bare.folder, 'hooks');
  const proc = readFileSync(join(hooks, 'proc-receive'), 'utf8');
  for (const [path, text, reason] of [
    ['hooks/proc-receive', null, 'fail to run proc-receive hook'],
    ['hooks/pre-receive', null, 'only half taken over by Sluice'],
    ['sluice/env', null, 'fail to run proc-receive hook'],
    ['sluice/repo', null, 'only half taken over by Sluice'],
    [
      'hooks/proc-receive',
      proc.replace(/exec '.*' hook/, 'exec /nonexistent hook'),
      'fail to run proc-receive hook',
    ],
  ] as const) {
    const full = join(bare.folder, path);
    const [before, { mode }] = [readFileSync(full, 'utf8'), lstatSync(full)];
    if (text === null) rmSync(full);
    else writeFileSync(full, text);
    expect((await push(['origin', 'main'])).stderr).toContain(reason);
    writeFileSync(full, before, { mode });
  }
  expect(await onDisk()).toEqual({});
  expect((await push(['origin', 'main'])).code).toBe(0);
});

test('an installation says how far it is on a terminal, and leaves nothing of that there', async () => {
  const { bare, repoId } = await adopted.begin();
  const install = ['hook', 'install', bare.folder, '--repo', repoId];
  const { code, stdout, stderr } = await adopted.cli(install, {}, { isTTY: true });
  expect(code).toBe(0);
  expect(stderr.split('\r\u001b[K')).toEqual([
    '',
    `looking at the refs of ${bare.folder}`,
    'waiting for the database',
    `taking the refs of ${bare.folder} over`,
    `writing the refs of ${bare.folder}`,
    '',
  ]);
  expect(stdout).toMatch(/^\S+ is adopted\/r\d+: it has no refs yet\n/);
  const refused = await adopted.cli([...install, '--replace'], { SLUICE_POOLER: 'none' }, { isTTY: true });
  expect(refused.stderr).toMatch(/\r\u001b\[Ksluice: [^\r]+\n {2}next: [^\r]+\n$/);
});

test('the settings are for the owner alone', async () => {
  const { bare, install } = await adopted.begin();
  await install();
  expect((lstatSync(join(bare.folder, 'sluice/env')).mode & 0o777).toString(8)).toBe('600');
});

test('git alone starts the hook', async () => {
  expect(await adopted.cli(['hook'])).toMatchObject({ code: 1, stdout: '' });
});
