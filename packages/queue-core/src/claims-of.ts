import { table, type DB } from '@sluice/db';
import { sql, type Kysely } from 'kysely';
import type { Claim } from './claim.ts';
import type { EffectId } from './effect-id.ts';

/**
 * The open claims of one claimant. A dispatcher compares them with what it runs: a claim whose answer was lost on the
 * way is open in its name without its knowing, and its heartbeat would protect it for ever.
 */
export async function dispatcherClaimsOf(db: Kysely<DB>, claimant: string): Promise<Claim[]> {
  const { rows } = await sql<{ effect_id: string; repo_id: string; claim_number: string; attempt: number }>`
    select effect_id::text, repo_id, claim_number::text, attempt
      from ${table('effect_claim')} c
     where claimant = ${claimant}
     order by c.claim_number`.execute(db);
  return rows.map((row) => ({
    effectId: BigInt(row.effect_id) as EffectId,
    repoId: row.repo_id,
    claimNumber: BigInt(row.claim_number),
    attempt: row.attempt,
    claimant,
  }));
}
