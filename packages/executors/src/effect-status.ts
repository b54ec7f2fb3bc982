import { constants } from 'node:os';
import type { EffectStatus } from './effect-executor.ts';
import type { ProcessEnd } from './supervise-process.ts';

type Verdict = Omit<EffectStatus, 'bytesLost'>;

/** The status of a command that ended by itself, by exit code. */
export function statusOfExit(exitCode: number): Verdict {
  if (exitCode === 0) return { status: 'pass', exitCode, reason: null };
  const signal = Object.entries(constants.signals).find(([, number]) => number === exitCode - 128)?.[0];
  return {
    status: 'fail',
    exitCode,
    reason: `exit code ${exitCode}${signal === undefined ? '' : ` (${signal})`}`,
  };
}

/** The status of a run that was stopped or never started; undefined if the process ended by itself. */
export function statusOfStop(end: ProcessEnd, timeoutMs: number): Verdict | undefined {
  switch (end.cause) {
    case 'timeout':
      return { status: 'timeout', exitCode: null, reason: `stopped after ${timeoutMs} ms, its time limit` };
    case 'aborted':
      return { status: 'error', exitCode: null, reason: 'stopped by the dispatcher' };
    case 'unkillable':
      return {
        status: 'error',
        exitCode: null,
        reason: 'could not be killed: the kernel does not let its process end',
      };
    case 'not_started':
      return {
        status: 'error',
        exitCode: null,
        reason: `could not be started: ${end.error?.message ?? 'unknown error'}`,
      };
    case 'exited':
      return undefined;
  }
}

/** The exit code a shell would report for the end of a process. */
export function exitCodeOf(end: ProcessEnd): number {
  return end.exitCode ?? 128 + (end.signal === null ? 0 : constants.signals[end.signal]);
}
