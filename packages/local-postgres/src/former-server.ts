import { execFileSync } from 'node:child_process';
import { readFileSync, readlinkSync, realpathSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { SUPERVISOR_NAME } from './supervisor.ts';

/** A supervisor notices at once that its program was killed, but the machine may be busy. */
const SUPERVISED_WAIT_MS = 10_000;
/** What a server that stops has to write down may take its time on a busy disk. */
const STOPPING_WAIT_MS = 30_000;
/** INT rolls back open transactions; QUIT leaves at once, and the next start recovers from the log; KILL is the end. */
const STOP_STEPS = [
  { signal: 'SIGINT', waitMs: 5_000 },
  { signal: 'SIGQUIT', waitMs: 5_000 },
  { signal: 'SIGKILL', waitMs: 5_000 },
] as const;

/**
 * Deals with a server that a former run left on this data directory. One whose supervisor lives is either stopping (its
 * program was killed a moment ago) or in use, and then this throws. An orphan, whose supervisor was killed as well, is
 * stopped. A pid file that names a stranger, as after a restart of a container, is removed: PostgreSQL would believe it.
 */
export async function endFormerServer(pgData: string): Promise<void> {
  const pid = postmasterPid(pgData);
  if (pid === undefined || !isAlive(pid)) return;
  if (!isServerOf(pid, pgData)) {
    rmSync(join(pgData, 'postmaster.pid'), { force: true });
    return;
  }
  if (isSupervised(pid)) {
    if (await isGoneWithin(pid, SUPERVISED_WAIT_MS)) return;
    if (isStopping(pgData) && (await isGoneWithin(pid, STOPPING_WAIT_MS))) return;
    throw new Error(
      `PostgreSQL: expected ${pgData} to be free, got a server (process ${pid}) that another program runs on it. ` +
        `Stop that program, or use another folder.`,
    );
  }
  await endServer(pgData);
}

/** Stops the server on this data directory, whoever runs it: politely first, by force in the end. */
export async function endServer(pgData: string): Promise<void> {
  const pid = postmasterPid(pgData);
  if (pid === undefined || !isServerOf(pid, pgData)) return;
  for (const { signal, waitMs } of STOP_STEPS) {
    if (!isAlive(pid)) return;
    process.kill(pid, signal);
    if (await isGoneWithin(pid, waitMs)) return;
  }
}

function postmasterPid(pgData: string): number | undefined {
  const pid = Number(pidFile(pgData)[0]);
  return Number.isInteger(pid) && pid > 1 ? pid : undefined;
}

/** The eighth line is the server's own word about its state; a file without it is gone, or that of a server that starts. */
function isStopping(pgData: string): boolean {
  return (pidFile(pgData)[7] ?? 'stopping').startsWith('stopping');
}

function pidFile(pgData: string): string[] {
  try {
    return readFileSync(join(pgData, 'postmaster.pid'), 'utf8').split('\n');
  } catch {
    return [];
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return commandLine(pid) !== '';
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

async function isGoneWithin(pid: number, waitMs: number): Promise<boolean> {
  const end = performance.now() + waitMs;
  while (isAlive(pid)) {
    if (performance.now() > end) return false;
    await sleep(50);
  }
  return true;
}

/** PostgreSQL works inside its data directory; where that cannot be seen, its command line names it. */
function isServerOf(pid: number, pgData: string): boolean {
  try {
    return readlinkSync(`/proc/${pid}/cwd`) === realpathSync(pgData);
  } catch {
    return commandLine(pid).includes(pgData);
  }
}

function isSupervised(pid: number): boolean {
  const parent = parentOf(pid);
  return parent > 1 && commandLine(parent).includes(SUPERVISOR_NAME);
}

function parentOf(pid: number): number {
  try {
    // The command name in parentheses may hold anything, so count from its end: state, then parent.
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
  } catch {
    return Number(ps(pid, 'ppid='));
  }
}

/** Empty for a process that is gone or a zombie. */
function commandLine(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return process.platform === 'linux' ? '' : ps(pid, 'args=');
  }
}

function ps(pid: number, column: string): string {
  try {
    return execFileSync('ps', ['-o', column, '-p', String(pid)], {
      encoding: 'utf8',
      timeout: 10_000,
    }).trim();
  } catch {
    return '';
  }
}
