import type { DB } from '@sluice/db';
import { MATCHING_STEPS_MAX, matchingSteps, planInTurns } from '@sluice/effect-spec';
import { enqueueEffects, skipEffects, type ClaimedEffect } from '@sluice/queue-core/repo';
import type { AppliedEdit, RefRow } from '@sluice/ref-store';
import type { Transaction } from 'kysely';
import { inTurns } from '../in-turns.ts';
import { afterPush, readCurrentDefinitions } from './current-definitions.ts';
import { explainPush } from './explain-push.ts';
import { PushRefused } from './push-refused.ts';
import type { CommittedPush, PushToCommit } from './push-to-commit.ts';
import { hopsOf } from './settle-claim.ts';
import { skipReasonOf } from './skip-reason.ts';

/** What was just committed, and what it is judged by. */
interface PushEffects {
  pushId: string;
  signer: string | null;
  applied: readonly AppliedEdit[];
  /** The refs of definitions before the push. */
  definitionRefs: readonly RefRow[];
  /** The claim whose result it is. */
  claim: ClaimedEffect | null;
}

/** Plans the effects of a push and puts them into the queue, or records why they are skipped; says what the client is told. */
export async function causeEffects(
  trx: Transaction<DB>,
  push: PushToCommit,
  { pushId, signer, applied, definitionRefs, claim }: PushEffects,
): Promise<CommittedPush> {
  const { repoId } = push;
  const { definitions, broken } = await readCurrentDefinitions(push, afterPush(definitionRefs, applied));
  const names = applied.map(({ name }) => name);
  if (matchingSteps(definitions, names) > MATCHING_STEPS_MAX) {
    throw new PushRefused(
      `expected a push that can be matched in about a second, got ${names.length} refs for ${definitions.length} effect definitions with long patterns; push fewer refs at once`,
    );
  }
  const planning = planInTurns({
    repoId,
    pushId,
    signer,
    applied,
    definitions,
    facts: push.facts,
    hops: claim === null ? 0 : hopsOf(claim) + 1,
    effectsMax: push.effectsMax,
    skipReason: skipReasonOf(push.pushOptions),
  });
  const plan = await inTurns(planning);
  const enqueued = await enqueueEffects(
    trx,
    plan.enqueue.map(({ effect }) => effect),
  );
  const skipped =
    plan.skip.length === 0
      ? []
      : await skipEffects(
          trx,
          plan.skip.map(({ name, payload, reason }) => ({ repoId, name, payload, reason, pushId })),
        );
  return {
    status: 'committed',
    pushId,
    lines: explainPush({ pushId, plan, enqueued, skipped, broken }),
    effectsQueued: enqueued.filter(({ status }) => status === 'queued').length,
  };
}
