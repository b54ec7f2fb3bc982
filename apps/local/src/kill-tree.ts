import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

interface Process {
  pid: number;
  parent: number;
  /** Of the process that began its session; 0 where that cannot be seen. */
  session: number;
}

/**
 * Ends a process that began a session, and everything below it or in its session, at once. A process that has ended
 * leaves children without a parent, and its session says whose they were.
 */
export function killTree(root: number): void {
  const processes = listProcesses();
  const doomed = [root, ...processes.filter(({ session }) => session === root).map(({ pid }) => pid)];
  for (const each of doomed) {
    for (const { pid, parent } of processes) if (parent === each && !doomed.includes(pid)) doomed.push(pid);
  }
  for (const pid of doomed) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // It ended by itself.
    }
  }
}

function listProcesses(): Process[] {
  if (process.platform === 'linux') return readdirSync('/proc').flatMap(readProc);
  const lines = execFileSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8', timeout: 10_000 })
    .trim()
    .split('\n');
  return lines.map((line) => {
    const [pid, parent] = line.trim().split(/\s+/);
    return { pid: Number(pid), parent: Number(parent), session: 0 };
  });
}

function readProc(name: string): Process[] {
  try {
    // The command name in parentheses may hold anything, so count from its end: state, parent, group, session.
    const stat = readFileSync(`/proc/${Number(name)}/stat`, 'utf8');
    const [, parent, , session] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return [{ pid: Number(name), parent: Number(parent), session: Number(session) }];
  } catch {
    return [];
  }
}
