import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { expect, onTestFinished, test, vi } from 'vitest';
import { killMarkedProcesses, RUN_MARK } from './kill-marked-processes.ts';

/** A process that starts the next one in a session of its own and exits, over and over; ends by itself in the end. */
const RESTLESS = '[ "$N" -lt 2000 ] || exit; N=$((N + 1)); echo; sleep 0.005; setsid sh -c "$S" & exit';

test.runIf(process.platform === 'linux')(
  'of what forks and exits every few milliseconds, each time in a session of its own, nothing is left',
  async () => {
    // One look may happen upon it even where most would miss it.
    for (let times = 0; times < 5; times += 1) {
      const mark = `run-${randomUUID()}`;
      const child = spawn('sh', ['-c', RESTLESS], {
        env: { PATH: process.env['PATH'], S: RESTLESS, N: '0', [RUN_MARK]: mark },
        stdio: ['ignore', 'pipe', 'ignore'],
      });
      let generations = 0;
      // All of them hold the pipe: it ends with the last.
      let hasEnded = false;
      child.stdout.on('data', (lines: Buffer) => (generations += lines.length));
      child.stdout.on('end', () => (hasEnded = true));
      await vi.waitFor(() => expect(generations).toBeGreaterThan(10), { timeout: 20_000, interval: 5 });
      await killMarkedProcesses(mark);
      await vi.waitFor(() => expect(hasEnded).toBe(true), { timeout: 4_000, interval: 10 });
      expect(generations).toBeLessThan(2000);
    }
  },
);

test.runIf(process.platform === 'linux')(
  'however many processes there are, other work has its turn in between',
  async () => {
    const mark = `run-${randomUUID()}`;
    const env = { PATH: process.env['PATH'], [RUN_MARK]: mark };
    const children = Array.from({ length: 80 }, () => spawn('sleep', ['300'], { env, stdio: 'ignore' }));
    await Promise.all(children.map((child) => once(child, 'spawn')));
    const ended = children.map((child) => once(child, 'exit'));
    const kill = vi.spyOn(process, 'kill');
    onTestFinished(() => kill.mockRestore());
    const killed: number[] = [];
    let turns = setImmediate(function turn() {
      killed.push(kill.mock.calls.length - killed.reduce((sum, each) => sum + each, 0));
      turns = setImmediate(turn);
    });
    expect(await killMarkedProcesses(mark)).toBe(80);
    clearImmediate(turns);
    expect(Math.max(...killed)).toBeLessThanOrEqual(50);
    await Promise.all(ended);
  },
);

test('other processes, of another mark or without one, are left alone', async () => {
  const mark = `run-${randomUUID()}`;
  const children = [mark, `${mark}0`, undefined].map((its) =>
    spawn('sleep', ['300'], {
      env: { PATH: process.env['PATH'], ...(its === undefined ? {} : { [RUN_MARK]: its }) },
    }),
  );
  await Promise.all(children.map((child) => once(child, 'spawn')));
  const ended = children.map((child) => once(child, 'exit'));
  expect(await killMarkedProcesses(mark)).toBe(1);
  expect(await ended[0]).toEqual([null, 'SIGKILL']);
  expect(children.slice(1).map(({ exitCode, signalCode }) => exitCode ?? signalCode)).toEqual([null, null]);
  for (const child of children) child.kill('SIGTERM');
  await Promise.all(ended);
});
