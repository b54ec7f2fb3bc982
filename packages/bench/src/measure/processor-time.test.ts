import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, test } from 'vitest';
import { processorSeconds } from './processor-time.ts';

test.runIf(process.platform === 'linux')(
  'a process that works shows, as long as it runs and after its end',
  async () => {
    const before = processorSeconds(process.pid)!;
    const child = spawn(process.execPath, ['-e', 'for (;;) {}'], { stdio: 'ignore' });
    const ended = once(child, 'exit');
    while ((processorSeconds(child.pid!) ?? 0) < 0.2) await new Promise((next) => setTimeout(next, 10));
    expect(processorSeconds(process.pid)! - before).toBeGreaterThanOrEqual(0.2);
    child.kill('SIGKILL');
    await ended;
    expect(processorSeconds(child.pid!)).toBe(0);
    expect(processorSeconds(process.pid)! - before).toBeGreaterThanOrEqual(0.2);
  },
);
