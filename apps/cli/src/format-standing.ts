import type { FoundEffect } from '@sluice/queue-core/dispatcher';
import { formatReason, formatWaitReason } from './format-queue.ts';

/** How an effect stands: what it waits for, which attempt runs, or what became of it. */
export function formatStanding(effect: FoundEffect): string {
  if (effect.waitsFor !== null) return `waits for ${formatWaitReason(effect.waitsFor, effect.repoId)}`;
  if (effect.finishedAt === null) return `runs, attempt ${effect.attempts} of ${effect.maxAttempts}`;
  return `${effect.outcome ?? effect.state}${effect.reason === null ? '' : ` (${formatReason(effect)})`}`;
}
