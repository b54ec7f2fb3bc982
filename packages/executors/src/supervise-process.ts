import type { ChildProcess } from 'node:child_process';
import type { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import type { OutputRelay } from './output-relay.ts';

export interface Supervision {
  timeoutMs: number;
  signal: AbortSignal;
  relay: OutputRelay;
  /** Kills the process and all it started; called at the time limit, on abort, and in any case at the end. */
  kill: () => void | Promise<void>;
}

export interface ProcessEnd {
  cause: 'exited' | 'timeout' | 'aborted' | 'not_started' | 'unkillable';
  exitCode: number | null;
  /** Name of the signal it died of. */
  signal: NodeJS.Signals | null;
  error?: Error;
}

/** The longest `setTimeout` can wait. */
const TIMER_MS_MAX = 2_147_483_647;
/** A killed process that is still there after this waits in the kernel, for a dead disk for instance. */
const KILL_MS_MAX = 10_000;
/** What is in the pipe when all writers are dead is read within this. */
const DRAIN_MS_MAX = 5_000;

/** Waits for a process group's leader to end, within limits, while its output is relayed; then kills what is left of it. */
export async function superviseProcess(
  child: ChildProcess & { stdout: Readable },
  supervision: Supervision,
): Promise<ProcessEnd> {
  const { timeoutMs, signal, relay, kill } = supervision;
  const ended = Promise.withResolvers<ProcessEnd>();
  let stopCause: 'timeout' | 'aborted' | undefined;
  let killTimer: NodeJS.Timeout | undefined;
  const stop = (cause: 'timeout' | 'aborted'): void => {
    if (stopCause !== undefined) return;
    stopCause = cause;
    void kill();
    killTimer = setTimeout(
      () => ended.resolve({ cause: 'unkillable', exitCode: null, signal: null }),
      KILL_MS_MAX,
    );
  };
  child.once('error', (error) =>
    ended.resolve({ cause: 'not_started', exitCode: null, signal: null, error }),
  );
  child.once('exit', (exitCode, exitSignal) =>
    ended.resolve({ cause: stopCause ?? 'exited', exitCode, signal: exitSignal }),
  );
  const timer = setTimeout(() => stop('timeout'), Math.min(timeoutMs, TIMER_MS_MAX));
  const onAbort = (): void => stop('aborted');
  signal.addEventListener('abort', onAbort, { once: true });
  if (signal.aborted) onAbort();

  const drained = relayAll(child.stdout, relay);
  const end = await ended.promise;
  clearTimeout(timer);
  clearTimeout(killTimer);
  signal.removeEventListener('abort', onAbort);
  // A background child may hold the pipe open for ever: the leader's end is the end.
  await kill();
  const drainLimit = new AbortController();
  await Promise.race([
    drained,
    delay(DRAIN_MS_MAX, undefined, { signal: drainLimit.signal }).catch(() => {}),
  ]);
  drainLimit.abort();
  child.stdout.destroy();
  await relay.end();
  return end;
}

async function relayAll(output: Readable, relay: OutputRelay): Promise<void> {
  try {
    for await (const chunk of output) await relay.write(chunk as Buffer);
  } catch {
    // The pipe was closed under the reader: there is no more output.
  }
}
