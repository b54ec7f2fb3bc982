import type { Enqueued } from '@sluice/queue-core/repo';
import type { EffectPlan } from '@sluice/effect-spec';

export interface PushStory {
  pushId: string;
  plan: EffectPlan;
  /** What became of `plan.enqueue`, in its order. */
  enqueued: readonly Enqueued[];
  /** Ids of `plan.skip`, in its order. */
  skipped: readonly bigint[];
  /** Definitions that are stored and mean nothing, by name. */
  broken: readonly { name: string; problem: string }[];
}

/** Lines of one kind beyond this become one line with their number. */
const LINES_MAX = 50;

/** What the client prints: the push id, and for every effect what happened and why. */
export function explainPush(story: PushStory): string[] {
  const { plan, enqueued, skipped, broken } = story;
  const lines = [`push ${story.pushId}`];
  lines.push(
    ...bounded(
      plan.enqueue.map(({ ref, effect }, index) => enqueuedLine(effect, ref, enqueued[index]!)),
      (more) => `and ${more} more effects`,
    ),
    ...bounded(
      enqueued.flatMap((one) =>
        'superseded' in one ? one.superseded.map((old) => ({ old, by: one.effectId })) : [],
      ),
      (more) => `and ${more} more effects superseded`,
    ).map((line) => (typeof line === 'string' ? line : `effect ${line.old} superseded by ${line.by}`)),
    ...bounded(
      plan.skip.map(
        ({ ref, name, reason }, index) =>
          `effect ${skipped[index]} ${name} for ${ref}: skipped: ${reason}; ${runAfterAll(skipped[index]!)}`,
      ),
      (more) => `and ${more} more effects skipped`,
    ),
    ...unrecordedLines(plan),
    ...unmatchedLines(plan),
    ...bounded(
      broken.map(({ name, problem }) => `no effect ${name}: ${problem}`),
      (more) => `and ${more} more definitions that mean nothing`,
    ),
  );
  return lines;
}

function enqueuedLine(
  { name, repoId }: EffectPlan['enqueue'][number]['effect'],
  ref: string,
  one: Enqueued,
): string {
  const about = `effect ${one.effectId} ${name} for ${ref}`;
  if (one.status === 'queued') return `${about}: queued`;
  // What the queue refuses, it refuses for max_queued.
  if (one.status === 'skipped')
    return `${about}: skipped: ${one.reason}; when others are done, or after sluice repo set ${repoId} --max-queued <n>, ${runAfterAll(one.effectId)}`;
  return `${about}: already there, the same definition ran or waits for the same commit`;
}

/** For whoever has the server's database; who only pushes asks them. */
function runAfterAll(effectId: bigint): string {
  return `sluice rerun ${effectId} runs it after all`;
}

function unrecordedLines({ skip, skipCount }: EffectPlan): string[] {
  const unrecorded = skipCount - skip.length;
  return unrecorded === 0
    ? []
    : [`and ${unrecorded} more effects skipped without a record of each; push fewer refs at once`];
}

function unmatchedLines({ unmatched, unmatchedCount }: EffectPlan): string[] {
  const lines = unmatched.map(({ name, ref, why }) => `no effect ${name} for ${ref}: ${why}`);
  const more = unmatchedCount - lines.length;
  return more === 0 ? lines : [...lines, `and ${more} more pairs of effect and ref that do not match`];
}

function bounded<T>(items: readonly T[], rest: (more: number) => string): (T | string)[] {
  if (items.length <= LINES_MAX) return [...items];
  return [...items.slice(0, LINES_MAX), rest(items.length - LINES_MAX)];
}
