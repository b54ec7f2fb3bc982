import { table, type DB } from '@sluice/db';
import { sql, type RawBuilder, type Transaction } from 'kysely';
import type { EffectId } from './effect-id.ts';
import { finishClaims } from './finish-claims.ts';

/** A claim whose row the transaction has locked. */
export interface LockedClaim {
  effect_id: string;
  repo_id: string;
  claim_number: string;
  attempt: number;
  claimant: string;
  /** NULL: its effect is gone. */
  max_attempts: number | null;
}

/** Locks up to `limit` open claims, oldest first, except those that somebody is finishing at this moment. */
export async function lockClaims(
  trx: Transaction<DB>,
  { where, limit }: { where: RawBuilder<unknown>; limit: number },
): Promise<LockedClaim[]> {
  const { rows } = await sql<LockedClaim>`
    select c.effect_id::text, c.repo_id, c.claim_number::text, c.attempt, c.claimant,
           (select q.max_attempts from ${table('effect_queue')} q where q.effect_id = c.effect_id) as max_attempts
      from ${table('effect_claim')} c
     where ${where}
     order by c.claim_number
     limit ${limit}::int
       for update of c skip locked`.execute(trx);
  return rows;
}

/**
 * Takes locked claims from a claimant that is gone: the attempt is spent, and the effect waits again, or is dead after
 * its last attempt.
 */
export async function takeBackClaims(
  trx: Transaction<DB>,
  claims: readonly LockedClaim[],
  reason: string,
): Promise<void> {
  const isLast = (claim: LockedClaim): boolean =>
    claim.max_attempts !== null && claim.attempt >= claim.max_attempts;
  await sql`
    with closed as (
      delete from ${table('effect_claim')}
       where effect_id = any(${claims.filter((claim) => !isLast(claim)).map((claim) => claim.effect_id)}::bigint[])
      returning effect_id
    )
    update ${table('effect_queue')} q set attempts = attempts + 1, last_error = ${reason}
     where q.effect_id = any(array(select effect_id from closed))`.execute(trx);
  await finishClaims(
    trx,
    claims.filter(isLast).map((claim) => ({
      claim: {
        effectId: BigInt(claim.effect_id) as EffectId,
        repoId: claim.repo_id,
        claimNumber: BigInt(claim.claim_number),
        attempt: claim.attempt,
        claimant: claim.claimant,
      },
      state: 'dead',
      reason: `attempts used up: in the last one, number ${claim.attempt}, ${reason}`,
    })),
  );
}
