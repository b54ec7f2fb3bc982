import { randomBytes } from 'node:crypto';
import { mkdir, readdir, readFile, rename } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join, resolve } from 'node:path';
import { killMarkedProcesses } from '@sluice/executors';
import { makeFolder } from '@sluice/service-kit';
import { removeFolder } from './remove-folder.ts';

/** This process's own part of the work folder. */
export interface WorkFolder extends AsyncDisposable {
  /** Fetched repositories; kept for the next start. */
  readonly cacheDir: string;
  /** A new empty folder for one run; disposing removes it. */
  readonly createRunFolder: () => Promise<RunFolder>;
  /** What dead dispatchers had left. */
  readonly swept: { folders: number; processes: number };
}

export interface RunFolder extends AsyncDisposable {
  readonly path: string;
}

/**
 * Opens the work folder. Dispatchers of one machine may share it: each has a folder named after itself. What killed
 * ones left is swept first, their effects' processes included; the newest of their caches is taken over.
 */
export async function openWorkFolder(path: string): Promise<WorkFolder> {
  // Git and the sandbox are started in other folders: a relative path would mean something else there.
  const workDir = resolve(path);
  await makeFolder('SLUICE_WORK_DIR', workDir);
  const own = join(workDir, await folderName(process.pid));
  const [cacheDir, runsDir] = [join(own, CACHE), join(own, RUNS)];
  await mkdir(runsDir, { recursive: true, mode: 0o700 });
  const swept = { folders: 0, processes: 0 };
  for (const folder of await deadFolders(workDir)) {
    for (const run of await readdir(join(folder, RUNS)).catch(() => [])) {
      swept.folders += 1;
      swept.processes += await killMarkedProcesses(run);
    }
    await rename(join(folder, CACHE), cacheDir).catch(() => {});
    await removeFolder(folder);
  }
  await mkdir(cacheDir, { recursive: true });
  return {
    cacheDir,
    swept,
    createRunFolder: async () => {
      const path = join(runsDir, `run-${randomBytes(12).toString('hex')}`);
      await mkdir(path);
      return { path, [Symbol.asyncDispose]: () => removeFolder(path) };
    },
    [Symbol.asyncDispose]: () => removeFolder(runsDir),
  };
}

const CACHE = 'cache';
const RUNS = 'runs';
const NAME = /^dispatcher-(.+)-(\d+)-(\d+)$/;

async function deadFolders(workDir: string): Promise<string[]> {
  const dead: string[] = [];
  for (const name of await readdir(workDir)) {
    const [, host, pid] = NAME.exec(name) ?? [];
    // A process of another machine or container cannot be judged from here.
    if (host !== safeHostname() || name === (await folderName(Number(pid)))) continue;
    dead.push(join(workDir, name));
  }
  return dead;
}

/** Names a process for all time: pids come back, a pid with its start time does not. */
async function folderName(pid: number): Promise<string> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined);
  // Field 22, counted after the parenthesised name, which may hold anything.
  const startedAt = stat?.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? (isAlive(pid) ? '0' : 'none');
  return `dispatcher-${safeHostname()}-${pid}-${startedAt}`;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

function safeHostname(): string {
  return hostname().replaceAll(/[^A-Za-z0-9.-]/g, '_');
}
