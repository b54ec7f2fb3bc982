import { table, type DB } from '@sluice/db';
import { sql, type Kysely } from 'kysely';
import { assertList } from './assert-argument.ts';
import { checkClaim } from './check-claim.ts';
import type { Claim } from './claim.ts';

const CLAIMS_MAX = 100_000;

/**
 * Gives claims back that were not started, as at shutdown: the effects wait again, with no attempt spent. Returns the
 * claim numbers that were accepted; each one missing was stale, and is left alone.
 */
export async function dispatcherHandBack(db: Kysely<DB>, claims: readonly Claim[]): Promise<bigint[]> {
  assertList('claims', claims, CLAIMS_MAX);
  for (const [index, claim] of claims.entries()) checkClaim(claim, `claims[${index}]`);
  if (claims.length === 0) return [];
  const fences = Object.fromEntries(
    claims.map((claim) => [
      String(claim.claimNumber),
      [String(claim.effectId), claim.repoId, claim.attempt, claim.claimant],
    ]),
  );
  const { rows } = await sql<{ claim_number: string }>`
    with given as materialized (
      select ${JSON.stringify(fences)}::jsonb as fences
    ), mine as materialized (
      select c.effect_id from ${table('effect_claim')} c, given
       where c.effect_id = any(${claims.map((claim) => claim.effectId)}::bigint[])
         and given.fences -> c.claim_number::text
             = jsonb_build_array(c.effect_id::text, c.repo_id, c.attempt, c.claimant)
       order by c.effect_id
         for update of c
    )
    delete from ${table('effect_claim')}
     where effect_id = any(array(select effect_id from mine))
    returning claim_number::text`.execute(db);
  return rows.map((row) => BigInt(row.claim_number));
}
