import { dateOf, type DB, instant, table } from '@sluice/db';
import { sql, type Kysely } from 'kysely';
import type { Outcome } from './claim.ts';
import type { EffectId } from './effect-id.ts';
import type { FinishedState } from './finished-effects.ts';
import type { WaitReason } from './wait-reason.ts';
import { waitingEffect } from './waiting-effects.ts';

/** Everything that is known about one effect. */
export interface FoundEffect {
  effectId: EffectId;
  repoId: string;
  name: string;
  payload: string;
  state: 'enqueued' | 'scheduled' | 'claimed' | FinishedState;
  outcome: Outcome | null;
  /** Why it is not done; of an unfinished one, why its last attempt did not finish. */
  reason: string | null;
  priority: number;
  /** Spent, the one that runs included. */
  attempts: number;
  maxAttempts: number;
  pushId: string | null;
  claimNumber: bigint | null;
  claimant: string | null;
  resultRef: string | null;
  runAt: Date | null;
  enqueuedAt: Date;
  claimedAt: Date | null;
  finishedAt: Date | null;
  /** Of one that is enqueued or scheduled. */
  waitsFor: WaitReason | null;
}

/** Finds an effect, unfinished or finished; `defaultCap` as for `waitingEffects`. */
export async function findEffect(
  db: Kysely<DB>,
  effectId: EffectId,
  { defaultCap }: { defaultCap?: number | undefined } = {},
): Promise<FoundEffect | undefined> {
  const { rows } = await sql<Row>`
    select repo_id, name, payload, state, outcome, reason, priority::int, attempts, max_attempts, push_id,
           claim_number::text, claimant, result_ref, ${instant(sql`run_at`)} as run_at,
           ${instant(sql`enqueued_at`)} as enqueued_at, ${instant(sql`claimed_at`)} as claimed_at,
           ${instant(sql`finished_at`)} as finished_at
      from ${table('effect')} where effect_id = ${effectId}`.execute(db);
  const row = rows[0];
  if (row === undefined) return undefined;
  const isWaiting = row.state === 'enqueued' || row.state === 'scheduled';
  const waiting = isWaiting ? await waitingEffect(db, effectId, defaultCap) : undefined;
  return {
    effectId,
    repoId: row.repo_id,
    name: row.name,
    payload: row.payload,
    state: row.state,
    outcome: row.outcome,
    reason: row.reason,
    priority: row.priority,
    attempts: row.attempts,
    maxAttempts: row.max_attempts,
    pushId: row.push_id,
    claimNumber: row.claim_number === null ? null : BigInt(row.claim_number),
    claimant: row.claimant,
    resultRef: row.result_ref,
    runAt: dateOf(row.run_at),
    enqueuedAt: dateOf(row.enqueued_at),
    claimedAt: dateOf(row.claimed_at),
    finishedAt: dateOf(row.finished_at),
    waitsFor: waiting?.waitsFor ?? null,
  };
}

interface Row {
  repo_id: string;
  name: string;
  payload: string;
  state: FoundEffect['state'];
  outcome: Outcome | null;
  reason: string | null;
  priority: number;
  attempts: number;
  max_attempts: number;
  push_id: string | null;
  claim_number: string | null;
  claimant: string | null;
  result_ref: string | null;
  run_at: string | null;
  enqueued_at: string;
  claimed_at: string | null;
  finished_at: string | null;
}
