import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { commandArguments, MERGE_OUTPUT } from './command-arguments.ts';
import type { EffectExecutor, EffectSpec, RunContext } from './effect-executor.ts';
import { exitCodeOf, statusOfExit, statusOfStop } from './effect-status.ts';
import { killMarkedProcesses, RUN_MARK } from './kill-marked-processes.ts';
import { killProcessGroup } from './kill-process-group.ts';
import { createOutputRelay } from './output-relay.ts';
import { limitArguments, PRLIMIT } from './process-limits.ts';
import { superviseProcess } from './supervise-process.ts';

export interface HostExecutorOptions {
  /** How long `onOutput` may hold the command up; by default 10,000 ms. */
  stallMs?: number;
}

/**
 * Runs commands as this user on this machine, without a sandbox: they can read and change whatever the dispatcher can.
 * For one's own repositories on one's own machine.
 */
export function createHostExecutor({ stallMs = 10_000 }: HostExecutorOptions = {}): EffectExecutor {
  return { name: 'host', run: (spec, context) => runOnHost(spec, context, stallMs) };
}

async function runOnHost(spec: EffectSpec, { signal, onOutput }: RunContext, stallMs: number) {
  const [home, temporary] = [join(spec.folder, 'home'), join(spec.folder, 'tmp')];
  await Promise.all([mkdir(home, { recursive: true }), mkdir(temporary, { recursive: true })]);
  // Not the limit on processes: it counts everything this user runs.
  const limited = existsSync(PRLIMIT)
    ? [PRLIMIT, ...limitArguments(spec.limits, { hasProcessLimit: false })]
    : [];
  const mark = basename(spec.folder);
  const relay = createOutputRelay({ onOutput, bytesMax: spec.limits.outputBytesMax, stallMs });
  const child = spawn('/bin/sh', [...MERGE_OUTPUT, ...limited, ...commandArguments(spec.command)], {
    cwd: join(spec.folder, 'work'),
    env: {
      PATH: process.env['PATH'],
      LANG: 'C.UTF-8',
      CI: 'true',
      HOME: home,
      TMPDIR: temporary,
      ...spec.env,
      [RUN_MARK]: mark,
    },
    stdio: ['ignore', 'pipe', 'ignore'],
    detached: true,
  });
  const kill = async (): Promise<void> => {
    killProcessGroup(child.pid);
    await killMarkedProcesses(mark);
  };
  const end = await superviseProcess(child, { timeoutMs: spec.timeoutMs, signal, relay, kill });
  return {
    ...(statusOfStop(end, spec.timeoutMs) ?? statusOfExit(exitCodeOf(end))),
    bytesLost: relay.bytesLost,
  };
}
