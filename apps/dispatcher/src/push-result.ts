import type { WorkOrder } from '@sluice/effect-spec';
import { GitError, runGit } from '@sluice/executors';
import { untilAnswered } from '@sluice/service-kit';
import { buildResult, type EffectResult } from './build-result.ts';
import { hasMoved, isTransient, type PusherClient } from './pusher-client.ts';

export interface ResultToPush {
  pusher: PusherClient;
  claimNumber: bigint;
  /** From `createResultRepository`. */
  gitDir: string;
  order: WorkOrder;
  result: EffectResult;
  log: Uint8Array;
  signal: AbortSignal;
  /** How long a pusher that does not answer is waited for. */
  retryMs: number;
}

export type PushedResult =
  | { status: 'stored' }
  /** Somebody else has the effect, or it is finished: there is nothing left to do here. */
  | { status: 'claim_gone'; reason: string }
  /** The pusher answered no, and would again. */
  | { status: 'refused'; reason: string };

/** A result of the same effect for the same commit may be stored at the same time, by a run for another ref. */
const RACES_MAX = 20;

/**
 * Pushes the result as a child of the result that is there, if any. Storing it and completing the effect are one
 * transaction of the pusher's. Rejects with a transient GitError when the pusher did not answer in time.
 */
export async function pushResult(options: ResultToPush): Promise<PushedResult> {
  let parent: string | null = null;
  for (let race = 1; ; race += 1) {
    const outcome = await pushOnto(parent, options);
    if (outcome.status !== 'moved') return outcome;
    if (race === RACES_MAX) return { status: 'refused', reason: outcome.reason };
    parent = await fetchParent(options);
  }
}

async function pushOnto(
  parent: string | null,
  options: ResultToPush,
): Promise<PushedResult | { status: 'moved'; reason: string }> {
  const { pusher, claimNumber, gitDir, order, result, log } = options;
  const commit = await buildResult(gitDir, { order, result, log, parent });
  const url = pusher.claimUrl(order.repo, claimNumber);
  const ref = order.resultRef;
  try {
    await retried(options, [
      'push',
      '--porcelain',
      '--no-verify',
      `--force-with-lease=${ref}:${parent ?? ''}`,
      url,
      `${commit}:${ref}`,
    ]);
    return { status: 'stored' };
  } catch (error) {
    if (!(error instanceof GitError) || isTransient(error)) throw error;
    const reason = refusal(error);
    if (CLAIM_GONE.test(reason)) return { status: 'claim_gone', reason };
    return { status: hasMoved(error) ? 'moved' : 'refused', reason };
  }
}

async function fetchParent(options: ResultToPush): Promise<string | null> {
  const { pusher, order, gitDir } = options;
  const url = pusher.repoUrl(order.repo);
  try {
    await retried(options, [
      'fetch',
      '--quiet',
      '--no-tags',
      '--no-write-fetch-head',
      url,
      `+${order.resultRef}:refs/parent`,
    ]);
  } catch (error) {
    if (error instanceof GitError && /couldn't find remote ref/i.test(error.stderr)) return null;
    throw error;
  }
  return (await runGit({ gitDir, args: ['rev-parse', '--verify', 'refs/parent'] })).trim();
}

function retried(
  { pusher, gitDir, signal, retryMs }: ResultToPush,
  args: readonly string[],
): Promise<string> {
  return untilAnswered(() => runGit({ gitDir, signal, env: pusher.env, timeoutMs: 10 * 60_000, args }), {
    boundMs: retryMs,
    isRetryable: isTransient,
    signal,
  });
}

const CLAIM_GONE = /\bclaim \d+ is gone\b/i;

/** What the pusher said about the ref, or else git's own complaint. */
function refusal(error: GitError): string {
  const line = error.output.split('\n').find((candidate) => candidate.startsWith('!'));
  const reason = line?.split('\t').at(-1)?.trim();
  return reason ?? (error.stderr.trim() || error.message);
}
