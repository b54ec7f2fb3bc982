import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { isAbsolute, join, relative } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { openWorkFolder } from './work-folder.ts';

async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-work-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

it('gives each run a folder, and removes it with all a command can have left in it', async () => {
  const workDir = await temporaryFolder();
  const outside = await temporaryFolder();
  await writeFile(join(outside, 'keep'), '');
  const workFolder = await openWorkFolder(workDir);
  const run = await workFolder.createRunFolder();
  await mkdir(join(run.path, 'locked', 'inner'), { recursive: true });
  await symlink(outside, join(run.path, 'link'));
  await chmod(join(run.path, 'locked', 'inner'), 0);
  await chmod(join(run.path, 'locked'), 0);
  await run[Symbol.asyncDispose]();
  await expect(stat(run.path)).rejects.toMatchObject({ code: 'ENOENT' });
  expect(await readdir(outside)).toEqual(['keep']);
  expect((await stat(workDir)).mode & 0o077).toBe(0);
});

it('is absolute, however it was named: git runs in other folders', async () => {
  const workFolder = await openWorkFolder(relative(process.cwd(), await temporaryFolder()));
  await using run = await workFolder.createRunFolder();
  expect([run.path, workFolder.cacheDir].every(isAbsolute)).toBe(true);
});

it('sweeps what a killed dispatcher left: folders and processes; and keeps its cache', async () => {
  const workDir = await temporaryFolder();
  const ended = spawn('true');
  await once(ended, 'exit');
  const dead = join(workDir, `dispatcher-${hostname()}-${ended.pid}-1`);
  await mkdir(join(dead, 'runs', 'run-left-behind', 'work'), { recursive: true });
  await mkdir(join(dead, 'cache', 'repo.git'), { recursive: true });
  const orphan = spawn('sleep', ['300'], { env: { SLUICE_RUN: 'run-left-behind' }, detached: true });
  await once(orphan, 'spawn');
  const killed = once(orphan, 'exit');
  const workFolder = await openWorkFolder(workDir);
  expect(await killed).toEqual([null, 'SIGKILL']);
  expect(workFolder.swept).toEqual({ folders: 1, processes: 1 });
  expect(await readdir(workFolder.cacheDir)).toEqual(['repo.git']);
  expect(await readdir(workDir)).toHaveLength(1);
});

it('leaves the folders of living dispatchers and of other machines alone', async () => {
  const workDir = await temporaryFolder();
  const living = process.ppid;
  const statLine = await readFile(`/proc/${living}/stat`, 'utf8');
  const startedAt = statLine.slice(statLine.lastIndexOf(')') + 2).split(' ')[19];
  const others = [
    `dispatcher-${hostname()}-${living}-${startedAt}`,
    'dispatcher-elsewhere-1-1',
    'something-else',
  ];
  for (const name of others) await mkdir(join(workDir, name, 'runs'), { recursive: true });
  await openWorkFolder(workDir);
  expect(await readdir(workDir)).toEqual(expect.arrayContaining(others));
});
