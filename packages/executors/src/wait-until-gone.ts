import { readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';

const WAIT_MS_MAX = 5_000;
const POLL_MS = 5;

/** Waits, within a bound, until a killed process is no more: ended, or dead and only not yet reaped by its parent. */
export async function waitUntilGone(pid: number): Promise<void> {
  for (let waitedMs = 0; waitedMs < WAIT_MS_MAX; waitedMs += POLL_MS) {
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
    // The state letter follows the parenthesised name, which may itself hold anything.
    if (stat === '' || stat.slice(stat.lastIndexOf(')') + 2).startsWith('Z')) return;
    await delay(POLL_MS);
  }
}
