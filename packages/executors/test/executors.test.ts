import { randomInt } from 'node:crypto';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { bubblewrapWorks, createBubblewrapExecutor, createHostExecutor } from '../src/index.ts';
import { processesWith, runInFolder } from './run-in-folder.ts';

/** A number of seconds that no other process of the machine sleeps for. */
const uniqueSeconds = (): string => `30${randomInt(1e8, 1e9)}`;

describe.each([
  { executor: createBubblewrapExecutor(), name: 'bubblewrap' },
  { executor: createHostExecutor(), name: 'host' },
])('$name', ({ executor, name }) => {
  beforeAll(async () => {
    // Skipping would hide that nothing of the sandbox was tested.
    if (name === 'bubblewrap') expect(await bubblewrapWorks()).toEqual({ works: true });
  });

  it('passes, with output and error output in order', async () => {
    const run = await runInFolder(executor, 'echo one; echo two >&2; echo three; pwd');
    expect(run).toMatchObject({ status: 'pass', exitCode: 0, reason: null, bytesLost: 0 });
    expect(run.text).toMatch(/^one\ntwo\nthree\n\/.*work\n$/);
  });

  it('reports the exit code of a failing command and keeps its bytes as they are', async () => {
    const run = await runInFolder(executor, String.raw`printf '\211PNG\000\303\050\377\376\033[31m'; exit 4`);
    expect(run).toMatchObject({ status: 'fail', exitCode: 4, reason: 'exit code 4' });
    expect(run.output.toString('latin1')).toBe('\u0089PNG\0\u00c3(\u00ff\u00fe\u001b[31m');
  });

  it('reports the signal a command died of', async () => {
    expect(await runInFolder(executor, 'kill -SEGV $$')).toMatchObject({
      status: 'fail',
      exitCode: 139,
      reason: 'exit code 139 (SIGSEGV)',
    });
  });

  it('runs an argument list without a shell', async () => {
    const run = await runInFolder(executor, ['printf', '%s|', '$HOME', '; exit 3', '--', '']);
    expect(run).toMatchObject({ status: 'pass', text: '$HOME|; exit 3|--||' });
  });

  it('calls a missing program a failure of the command, not of the executor', async () => {
    expect(await runInFolder(executor, ['/no/such/program'])).toMatchObject({
      status: 'fail',
      exitCode: 127,
    });
  });

  it('gives the command documented variables and its own, and nothing of this process', async () => {
    vi.stubEnv('SLUICE_TOKEN', 'hunter2');
    vi.stubEnv('DATABASE_URL', 'postgres://u:hunter2@h/d');
    const run = await runInFolder(executor, ['env'], {
      env: { SLUICE_REF: 'refs/heads/$(id)\n', PATH: process.env['PATH'] ?? '' },
    });
    vi.unstubAllEnvs();
    expect(run.text).not.toContain('hunter2');
    const names = run.text.split('\n').flatMap((line) => /^(\w+)=/.exec(line)?.[1] ?? []);
    const documented = ['CI', 'HOME', 'LANG', 'PATH', 'SLUICE_REF', 'TMPDIR'];
    expect(
      names
        .filter((variable) => !['PWD', 'SLUICE_RUN', '_', 'OLDPWD', 'SHLVL'].includes(variable))
        .toSorted(),
    ).toEqual(documented);
    expect(run.text).toContain('refs/heads/$(id)');
  });

  it('ends when the command ends, though a background process holds the pipe', async () => {
    const seconds = uniqueSeconds();
    const run = await runInFolder(executor, `sleep ${seconds} & echo done`);
    expect(run).toMatchObject({ status: 'pass', text: 'done\n' });
    expect(await processesWith(seconds)).toBe(0);
  });

  it('kills everything at the time limit: children, and children that left the group', async () => {
    const seconds = uniqueSeconds();
    const run = await runInFolder(
      executor,
      `trap '' TERM; echo on; sleep ${seconds} & setsid sleep ${seconds} & setsid sh -c 'sleep ${seconds} & wait' & sleep ${seconds}`,
      {
        timeoutMs: 1_000,
      },
    );
    expect(run).toMatchObject({
      status: 'timeout',
      exitCode: null,
      reason: 'stopped after 1000 ms, its time limit',
    });
    expect(await processesWith(seconds)).toBe(0);
  });

  it('kills a command that keeps forking and exiting', async () => {
    const mark = `f${uniqueSeconds()}`;
    const script = 'f() { sleep 0.005; f & exit; }; f & sleep 300';
    const run = await runInFolder(executor, ['sh', '-c', script, mark], { timeoutMs: 500 });
    expect(run.status).toBe('timeout');
    expect(await processesWith(mark)).toBe(0);
  });

  it('stops when told, even before it began', async () => {
    const seconds = uniqueSeconds();
    const abort = new AbortController();
    const run = runInFolder(executor, `echo on; sleep ${seconds}`, {
      signal: abort.signal,
      onOutput: () => {
        abort.abort();
        return Promise.resolve();
      },
    });
    expect(await run).toMatchObject({ status: 'error', reason: 'stopped by the dispatcher', text: 'on\n' });
    expect(await runInFolder(executor, 'sleep 300', { signal: AbortSignal.abort() })).toMatchObject({
      status: 'error',
    });
    expect(await processesWith(seconds)).toBe(0);
  });

  it('keeps output up to its limit and lets the command finish', async () => {
    const run = await runInFolder(executor, 'head -c 30000000 /dev/zero; exit 3', {
      limits: { outputBytesMax: 100_000 },
    });
    expect(run).toMatchObject({ status: 'fail', exitCode: 3, bytesLost: 29_900_000 });
    expect(run.text.slice(100_000)).toBe(
      '\n[sluice: 29900000 bytes of output were not kept; the limit is 100000]\n',
    );
  });

  it('stops at the time limit what never stops writing, and goes on with other things meanwhile', async () => {
    let ticks = 0;
    const ticking = setInterval(() => (ticks += 1), 10);
    const run = await runInFolder(executor, 'yes', {
      timeoutMs: 1_000,
      limits: { outputBytesMax: 100_000 },
    });
    clearInterval(ticking);
    expect(run).toMatchObject({ status: 'timeout', reason: 'stopped after 1000 ms, its time limit' });
    expect(run.bytesLost).toBeGreaterThan(100_000);
    expect(run.text.slice(100_000)).toMatch(/^\n\[sluice: \d+ bytes of output were not kept/);
    expect(ticks).toBeGreaterThan(5);
  });

  it('does not read on while the receiver is busy', async () => {
    let busy = 0;
    let overlaps = 0;
    await runInFolder(executor, 'head -c 1000000 /dev/zero', {
      onOutput: async () => {
        busy += 1;
        if (busy > 1) overlaps += 1;
        await new Promise(setImmediate);
        busy -= 1;
      },
    });
    expect(overlaps).toBe(0);
  });

  it('limits the size of files and the memory of a process', async () => {
    const big = await runInFolder(executor, 'head -c 2000000 /dev/zero > big', {
      limits: { fileBytesMax: 1_000_000 },
    });
    expect(big).toMatchObject({ status: 'fail', reason: 'exit code 153 (SIGXFSZ)' });
    const greedy = await runInFolder(executor, 'head -c 300000000 /dev/zero | tail -n 1 > /dev/null', {
      limits: { memoryBytesMax: 100_000_000 },
    });
    expect(greedy.status).toBe('fail');
  });
});
