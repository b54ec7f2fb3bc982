import type { DB } from '@sluice/db';
import type { Kysely } from 'kysely';
import type { Claim } from './claim.ts';
import type { EffectId } from './effect-id.ts';

/**
 * The open claims of one claimant. A dispatcher compares them with what it runs: a claim whose answer was lost on the
 * way is open in its name without its knowing, and its heartbeat would protect it for ever.
 */
export async function dispatcherClaimsOf(db: Kysely<DB>, claimant: string): Promise<Claim[]> {
  const rows = await db
    .selectFrom('effect_claim')
    .select(['effect_id', 'repo_id', 'claim_number', 'attempt', 'claimant'])
    .where('claimant', '=', claimant)
    .orderBy('claim_number')
    .execute();
  return rows.map((row) => ({
    effectId: BigInt(row.effect_id) as EffectId,
    repoId: row.repo_id,
    claimNumber: BigInt(row.claim_number),
    attempt: row.attempt,
    claimant: row.claimant,
  }));
}
