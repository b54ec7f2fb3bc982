import {
  QUEUE_COUNT_MAX,
  type FinishedEffect,
  type QueueTotals,
  type RepoQueue,
  type RunningEffect,
  type WaitingEffect,
  type WaitReason,
} from '@sluice/queue-core/dispatcher';
import { formatInstant } from './format-instant.ts';
import { printableLine, table } from './terminal.ts';

/** What `sluice queue` shows. */
export interface QueueView {
  /** All of it is about this one. */
  readonly repoId: string | undefined;
  readonly repos: readonly RepoQueue[];
  readonly totals: QueueTotals;
  readonly running: readonly RunningEffect[];
  readonly waiting: readonly WaitingEffect[];
  readonly finished: readonly FinishedEffect[];
}

/** The queue as tables: each repository, then what runs, what waits and for what, and what finished last. */
export function formatQueue({ repoId, repos, totals, running, waiting, finished }: QueueView): string {
  const sections: string[] = [];
  if (totals.globalCap !== null) {
    sections.push(`${totals.running} run in all, the global cap is ${totals.globalCap}\n`);
  }
  if ([repos, running, waiting, finished].every((rows) => rows.length === 0)) {
    sections.push(
      repoId === undefined
        ? 'nothing is queued and nothing has finished\n'
        : `nothing of ${printableLine(repoId)} is queued or has finished; without --repo, sluice queue shows every repository with work\n`,
    );
  }
  if (repos.length > 0) {
    const rows = repos.map((repo) => [
      repo.repoId,
      String(repo.running),
      formatCount(repo.waiting),
      formatCount(repo.scheduled),
      repo.cap === null ? 'default' : String(repo.cap),
      String(repo.weight),
      totals.running === 0 ? '' : formatShare(repo.running / totals.running),
      formatEntitlement(repo, totals),
      repo.oldestWaitingMs === null ? '' : formatAge(repo.oldestWaitingMs),
      repo.pausedAt === null ? '' : 'paused',
    ]);
    sections.push(table(HEADING, rows));
  }
  if (running.length > 0) {
    const rows = running.map((effect) => [
      String(effect.effectId),
      effect.repoId,
      effect.name,
      String(effect.attempt),
      formatInstant(effect.claimedAt),
      effect.process === null ? effect.claimant : `process ${effect.process.pid} on ${effect.process.host}`,
    ]);
    sections.push(table(['RUNS', 'REPOSITORY', 'NAME', 'ATTEMPT', 'SINCE', 'BY'], rows));
  }
  if (waiting.length > 0) {
    const rows = waiting.map((effect) => [
      String(effect.effectId),
      effect.repoId,
      effect.name,
      formatWaitReason(effect.waitsFor, effect.repoId),
    ]);
    sections.push(table(['WAITS', 'REPOSITORY', 'NAME', 'FOR'], rows));
  }
  if (finished.length > 0) {
    const rows = finished.map((effect) => [
      String(effect.effectId),
      effect.repoId,
      effect.name,
      effect.outcome ?? effect.state,
      formatInstant(effect.finishedAt),
      formatReason(effect),
    ]);
    sections.push(table(['FINISHED', 'REPOSITORY', 'NAME', 'HOW', 'AT', 'REASON'], rows));
  }
  return sections.join('\n');
}

const HEADING = ['REPOSITORY', 'RUN', 'WAIT', 'LATER', 'CAP', 'WEIGHT', 'SHARE', 'ENTITLED', 'OLDEST', ''];

/** Part of the service that the weight stands for, among the repositories that have work now. */
function formatEntitlement(repo: RepoQueue, { weights }: QueueTotals): string {
  const hasTurns = repo.pausedAt === null && repo.running + repo.waiting > 0;
  return hasTurns ? formatShare(repo.weight / Math.max(weights, repo.weight)) : '';
}

function formatShare(share: number): string {
  const percent = 100 * share;
  return percent > 0 && percent < 1 ? '<1%' : `${Math.round(percent)}%`;
}

function formatCount(count: number): string {
  return count >= QUEUE_COUNT_MAX ? `${count}+` : String(count);
}

/** What a waiting effect waits for, to be read after "waits for". */
export function formatWaitReason(reason: WaitReason, repoId: string): string {
  switch (reason.kind) {
    case 'scheduled':
      return `its time, ${formatInstant(reason.until)}`;
    case 'retry': {
      const why = reason.lastError === null ? '' : `; the last one failed: ${shorten(reason.lastError)}`;
      return `attempt ${reason.attemptsSpent + 1} at ${formatInstant(reason.at)}${why}`;
    }
    case 'repo_paused':
      return `its repository, paused since ${formatInstant(reason.since)} (sluice repo set ${repoId} --resume)`;
    case 'no_dispatcher':
      return 'a dispatcher; none is running';
    case 'repo_at_cap':
      return `room in its repository: ${reason.running} run, the cap is ${reason.cap}`;
    case 'global_cap':
      return `room in all: ${reason.running} run, the global cap is ${reason.cap}`;
    case 'behind':
      return reason.ahead === 1 ? 'one effect before it' : `${reason.ahead} effects before it`;
    case 'next':
      return "its repository's turn";
  }
}

/** Why an effect came to nothing, with what to do where a person can do something. */
export function formatReason({ effectId, state, reason }: WithReason): string {
  if (state !== 'skipped' || reason !== QUEUE_FULL) return shorten(reason ?? '');
  return `${reason} (when there is room: sluice rerun ${effectId})`;
}

type WithReason = Pick<FinishedEffect, 'effectId' | 'reason'> & { readonly state: string };

/** As the queue says it of an effect that came when `max_queued` others waited. */
const QUEUE_FULL = 'queue full';

function formatAge(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`;
  return seconds < 172_800 ? `${Math.floor(seconds / 3600)}h` : `${Math.floor(seconds / 86_400)}d`;
}

function shorten(text: string): string {
  return text.length <= 100 ? text : `${text.slice(0, 99)}…`;
}
