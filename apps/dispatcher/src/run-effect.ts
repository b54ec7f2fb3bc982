import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { RunContext, RunResult } from '@sluice/dispatch';
import { decodeWorkOrder, environment, isServedName, type WorkOrder } from '@sluice/effect-spec';
import {
  DEFAULT_LIMITS,
  GitError,
  materialiseTree,
  UnsafeTreeError,
  type EffectExecutor,
  type EffectLimits,
  type EffectStatus,
} from '@sluice/executors';
import { createResultRepository, resultReason, type EffectResult } from './build-result.ts';
import type { CommitCache } from './commit-cache.ts';
import { createLogKeeper, type LogKeeper } from './log-keeper.ts';
import { pushResult } from './push-result.ts';
import type { PusherClient } from './pusher-client.ts';
import type { RunFolder } from './work-folder.ts';

/** The part of a claimed effect that running it needs. */
export interface EffectToRun {
  effectId: bigint;
  repoId: string;
  claimNumber: bigint;
  attempt: number;
  payload: string;
}

export interface EffectRunner {
  pusher: PusherClient;
  cache: CommitCache;
  executor: EffectExecutor;
  createRunFolder: () => Promise<RunFolder>;
  /** The current time, for the result. */
  now: () => Date;
  limits?: EffectLimits;
  /** Most bytes of output in the result's log; by default 1 MiB. */
  logBytesMax?: number;
  /** How long a pusher that does not take the result is waited for; by default five minutes. */
  pushRetryMs?: number;
}

/** Runs one claimed effect from its work order to its stored result. */
export async function runEffect(
  effect: EffectToRun,
  context: RunContext,
  runner: EffectRunner,
): Promise<RunResult> {
  const decoded = decodeWorkOrder(effect.payload);
  if ('problem' in decoded) return { status: 'poison', message: decoded.problem };
  const { order } = decoded;
  // A payload must not reach into another tenant's repository.
  if (order.repo !== effect.repoId) {
    return {
      status: 'poison',
      message: `work order: repo: expected ${effect.repoId}, the effect's own, got ${order.repo}`,
    };
  }
  if (!isServedName(order.repo))
    return { status: 'poison', message: `work order: repo: ${order.repo} is no name the pusher serves` };

  await using folder = await runner.createRunFolder();
  const startedAt = runner.now();
  const log = createLogKeeper(runner.logBytesMax ?? 1024 ** 2);
  const say = async (bytes: Uint8Array): Promise<void> => {
    log.add(bytes);
    await context.log(bytes);
  };
  const ended = await attempt(order, folder, { signal: context.signal, log: say }, runner);
  if (context.signal.aborted) return { status: 'error', message: 'stopped before it ended' };
  if (ended.status === 'error') return { status: 'error', message: ended.reason ?? 'the executor failed' };
  const result: EffectResult = {
    effectId: String(effect.effectId),
    name: order.effect.name,
    attempt: effect.attempt,
    outcome: ended.status,
    exitCode: ended.exitCode,
    reason: resultReason(ended.reason),
    startedAt: startedAt.toISOString(),
    finishedAt: runner.now().toISOString(),
    executor: runner.executor.name,
    logBytesMissing: ended.bytesLost,
  };
  // The pusher closes the claim together with the result, and a closed claim takes no output.
  await context.flush();
  return await settle(effect, { order, result, log, folder, signal: context.signal }, runner);
}

interface Output {
  signal: AbortSignal;
  log: (bytes: Uint8Array) => Promise<void>;
}

/** Fetches, checks out and runs. What is wrong with the commit or the definition is a failure of the effect. */
async function attempt(
  order: WorkOrder,
  folder: RunFolder,
  { signal, log }: Output,
  runner: EffectRunner,
): Promise<EffectStatus> {
  const failed = async (reason: string): Promise<EffectStatus> => {
    await log(Buffer.from(`[sluice: ${reason}]\n`));
    return { status: 'fail', exitCode: null, reason, bytesLost: 0 };
  };
  if (order.image !== null)
    return failed(
      `the definition asks for the image ${order.image}, and the ${runner.executor.name} executor has no images`,
    );
  const work = join(folder.path, 'work');
  await mkdir(work);
  try {
    await using cached = await runner.cache.borrow(
      { repoId: order.repo, objectFormat: order.objectFormat, commit: order.source.commit },
      signal,
    );
    try {
      await materialiseTree({ gitDir: cached.gitDir, treeOid: order.source.tree, into: work, signal });
    } catch (error) {
      if (error instanceof GitError && !signal.aborted) await cached.distrust();
      throw error;
    }
  } catch (error) {
    if (error instanceof UnsafeTreeError) return failed(error.message);
    throw error;
  }
  const { command, timeoutMs, network } = order;
  const status = await runner.executor.run(
    {
      command,
      env: environment(order),
      folder: folder.path,
      timeoutMs,
      hasNetwork: network,
      limits: runner.limits ?? DEFAULT_LIMITS,
    },
    { signal, onOutput: log },
  );
  if (status.status === 'timeout') await log(Buffer.from(`\n[sluice: ${status.reason}]\n`));
  return status;
}

interface Finished {
  order: WorkOrder;
  result: EffectResult;
  log: LogKeeper;
  folder: RunFolder;
  signal: AbortSignal;
}

/** Stores the result, which completes the effect; if the pusher refuses it, the effect is completed without one. */
async function settle(effect: EffectToRun, finished: Finished, runner: EffectRunner): Promise<RunResult> {
  const { order, result, log, folder, signal } = finished;
  const pushed = await pushResult({
    pusher: runner.pusher,
    claimNumber: effect.claimNumber,
    gitDir: await createResultRepository(folder.path, order.objectFormat),
    order,
    result,
    log: log.read(),
    signal,
    retryMs: runner.pushRetryMs ?? 300_000,
  });
  if (pushed.status !== 'refused') return { status: 'settled' };
  // Running it again would end the same way.
  const reason = [result.reason, `its result could not be stored: ${pushed.reason}`]
    .filter((part) => part !== null)
    .join('; ');
  return { status: 'done', outcome: result.outcome, reason: resultReason(reason) ?? reason };
}
