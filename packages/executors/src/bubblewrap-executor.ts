import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { ARGUMENTS_FD, bubblewrapArguments, OWN_ETC_FILES, STATUS_FD } from './bubblewrap-arguments.ts';
import { commandArguments, MERGE_OUTPUT } from './command-arguments.ts';
import type { EffectExecutor, EffectSpec, EffectStatus, RunContext } from './effect-executor.ts';
import { statusOfExit, statusOfStop } from './effect-status.ts';
import { findProgram } from './find-program.ts';
import { killProcessGroup } from './kill-process-group.ts';
import { createOutputRelay } from './output-relay.ts';
import { limitArguments, PRLIMIT } from './process-limits.ts';
import { readShortText } from './read-short-text.ts';
import { superviseProcess } from './supervise-process.ts';
import { waitUntilGone } from './wait-until-gone.ts';

export interface BubblewrapExecutorOptions {
  /** Folders and files of the host that commands may read beside the system's own, at the same path. */
  readOnlyPaths?: readonly string[];
  /** How long `onOutput` may hold the command up; by default 10,000 ms. */
  stallMs?: number;
}

/**
 * Runs commands in a sandbox made by bubblewrap: see {@link bubblewrapArguments} for what it contains. With network
 * granted a command reaches whatever this machine reaches, its loopback services included.
 */
export function createBubblewrapExecutor(options: BubblewrapExecutorOptions = {}): EffectExecutor {
  return { name: 'bubblewrap', run: (spec, context) => runInSandbox(spec, context, options) };
}

const NOT_INSTALLED = 'bwrap is not installed; install it with: apt-get install bubblewrap';

async function runInSandbox(
  spec: EffectSpec,
  { signal, onOutput }: RunContext,
  options: BubblewrapExecutorOptions,
): Promise<EffectStatus> {
  const bwrap = findProgram('bwrap');
  if (bwrap === undefined) return { status: 'error', exitCode: null, reason: NOT_INSTALLED, bytesLost: 0 };
  await writeOwnEtc(spec.folder);
  const limited = existsSync(PRLIMIT)
    ? [PRLIMIT, ...limitArguments(spec.limits, { hasProcessLimit: true })]
    : [];
  const relay = createOutputRelay({
    onOutput,
    bytesMax: spec.limits.outputBytesMax,
    stallMs: options.stallMs ?? 10_000,
  });
  // Its first process stays visible inside as pid 1 with this environment: it must be empty.
  const command = ['/bin/sh', ...MERGE_OUTPUT, ...limited, ...commandArguments(spec.command)];
  const child = spawn(bwrap, ['--args', String(ARGUMENTS_FD), '--', ...command], {
    cwd: '/',
    env: {},
    stdio: ['ignore', 'pipe', 'pipe', 'pipe', 'pipe'],
    detached: true,
  }) as ChildProcessByStdio<null, Readable, Readable>;
  const status = readShortText(child.stdio[STATUS_FD] as Readable);
  const complaint = readShortText(child.stderr);
  sendArguments(
    child.stdio[ARGUMENTS_FD] as Writable,
    bubblewrapArguments(spec, options.readOnlyPaths ?? []),
  );
  const end = await superviseProcess(child, {
    timeoutMs: spec.timeoutMs,
    signal,
    relay,
    kill: () => killProcessGroup(child.pid),
  });
  const { initPid, exitCode } = parseStatus(await status());
  // bwrap's end kills the sandbox's init, and the kernel kills everything else before init is gone.
  if (initPid !== undefined) await waitUntilGone(initPid);
  const bytesLost = relay.bytesLost;
  const stopped = statusOfStop(end, spec.timeoutMs);
  if (stopped !== undefined) return { ...stopped, bytesLost };
  if (exitCode !== undefined) return { ...statusOfExit(exitCode), bytesLost };
  const reason = `the sandbox did not start: ${(await complaint()).trim() || `bwrap ended with ${end.exitCode ?? end.signal}`}`;
  return { status: 'error', exitCode: null, reason, bytesLost };
}

async function writeOwnEtc(folder: string): Promise<void> {
  await mkdir(join(folder, 'etc'), { recursive: true });
  await Promise.all(
    Object.entries(OWN_ETC_FILES).map(([name, content]) => writeFile(join(folder, 'etc', name), content)),
  );
}

function sendArguments(pipe: Writable, values: readonly string[]): void {
  // bwrap may end before it has read them; its own message says why.
  pipe.on('error', () => {});
  pipe.end(values.map((value) => `${value}\0`).join(''));
}

/** Only bwrap, outside the sandbox, can write here: a command cannot pretend that the sandbox failed, nor the reverse. */
function parseStatus(text: string): { initPid?: number; exitCode?: number } {
  const number = (name: string): number | undefined => {
    const match = new RegExp(`"${name}": (\\d+)`).exec(text);
    return match === null ? undefined : Number(match[1]);
  };
  const [initPid, exitCode] = [number('child-pid'), number('exit-code')];
  return { ...(initPid === undefined ? {} : { initPid }), ...(exitCode === undefined ? {} : { exitCode }) };
}
