import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

/** Ends a process and everything below it, at once. */
export function killTree(root: number): void {
  const parents = parentOfEach();
  const doomed = [root];
  for (const pid of doomed) {
    for (const [child, parent] of parents) if (parent === pid && !doomed.includes(child)) doomed.push(child);
  }
  for (const pid of doomed) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // It ended by itself.
    }
  }
}

function parentOfEach(): [pid: number, parent: number][] {
  if (process.platform === 'linux') return readdirSync('/proc').flatMap(readProc);
  const lines = execFileSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8', timeout: 10_000 })
    .trim()
    .split('\n');
  return lines.map((line) => {
    const [pid, parent] = line.trim().split(/\s+/);
    return [Number(pid), Number(parent)];
  });
}

function readProc(name: string): [pid: number, parent: number][] {
  try {
    // The command name in parentheses may hold anything, so count from its end: state, then parent.
    const stat = readFileSync(`/proc/${Number(name)}/stat`, 'utf8');
    return [[Number(name), Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1])]];
  } catch {
    return [];
  }
}
