import { table, type DB } from '@sluice/db';
import { sql, type Kysely } from 'kysely';
import type { Claim, Outcome } from './claim.ts';

/** How a claim ends for good. */
export type Finish = { claim: Claim; reason?: string | undefined; resultRef?: string | undefined } & (
  { state: 'done'; outcome: Outcome } | { state: 'dead'; outcome?: undefined }
);

/**
 * Moves claimed effects to history in one statement and returns the claim numbers that were accepted. A claim counts
 * only if number, effect, repo, attempt and claimant all match an open one: whoever lost it changes nothing. Of several
 * finishes of one claim the first counts.
 *
 * No step is a join. Open claims are few and short-lived, so statistics about them are wrong more often than right; a
 * join planned on "there are none" is a nested loop of rows² comparisons, and one planned on "there are many" reads the
 * whole queue. Rows are found by `= any(array)` through an index and meet their input by binary search (`width_bucket`
 * in a sorted array).
 */
export async function finishClaims(db: Kysely<DB>, finishes: readonly Finish[]): Promise<bigint[]> {
  if (finishes.length === 0) return [];
  const { rows } = await finishStatement(finishes).execute(db);
  return rows.map((row) => BigInt(row.claim_number));
}

/** The statement behind {@link finishClaims}. */
export function finishStatement(finishes: readonly Finish[]) {
  const sorted = sortedByNumber(finishes);
  const numbers = sql`${sorted.map(({ claim }) => claim.claimNumber)}::bigint[]`;
  const position = sql`width_bucket(c.claim_number, given.numbers)`;
  return sql<{ claim_number: bigint | string }>`
    with given as materialized (
      select ${numbers} as numbers,
             ${sorted.map(({ claim }) => claim.effectId)}::bigint[] as effects,
             ${sorted.map(({ claim }) => claim.repoId)}::text[] as repos,
             ${sorted.map(({ claim }) => claim.attempt)}::integer[] as attempts,
             ${sorted.map(({ claim }) => claim.claimant)}::text[] as claimants,
             ${sorted.map(({ state }) => state)}::text[] as states,
             ${sorted.map(({ outcome }) => outcome ?? null)}::text[] as outcomes,
             ${sorted.map(({ reason }) => reason ?? null)}::text[] as reasons,
             ${sorted.map(({ resultRef }) => resultRef ?? null)}::text[] as result_refs
    ), closed as (
      delete from ${table('effect_claim')} c using given
       where c.claim_number = any(${numbers})
         and c.effect_id = given.effects[${position}]
         and c.repo_id = given.repos[${position}]
         and c.attempt = given.attempts[${position}]
         and c.claimant = given.claimants[${position}]
      returning c.effect_id, c.claim_number, c.attempt, c.claimant, c.claimed_at, ${position} as position
    ), accepted as materialized (
      select array_agg(effect_id order by effect_id) as effects,
             array_agg(claimed_at order by effect_id) as claimed_at,
             array_agg(position order by effect_id) as positions
        from closed
    ), removed as (
      delete from ${table('effect_queue')} q
       where q.effect_id = any((select effects from accepted)::bigint[])
      returning q.*
    ), placed as (
      select removed.*, width_bucket(removed.effect_id, accepted.effects) as nth,
             accepted.positions[width_bucket(removed.effect_id, accepted.effects)] as position
        from removed, accepted
    ), kept as (
      insert into ${table('effect_history')}
             (effect_id, repo_id, name, payload, state, outcome, reason, priority, attempts, max_attempts, dedup_key,
              concurrency_group, push_id, claim_number, claimant, result_ref, enqueued_at, claimed_at)
      select p.effect_id, p.repo_id, p.name, p.payload, g.states[p.position], g.outcomes[p.position],
             g.reasons[p.position], p.priority, g.attempts[p.position], p.max_attempts, p.dedup_key,
             p.concurrency_group, p.push_id, g.numbers[p.position], g.claimants[p.position],
             g.result_refs[p.position], p.enqueued_at, a.claimed_at[p.nth]
        from placed p, given g, accepted a
    ), retained as (
      update ${table('effect_dedup')} k set done_at = now()
       where k.is_retained
         and k.effect_id = any(array(select p.effect_id from placed p, given g
                                      where p.dedup_key is not null and g.states[p.position] = 'done'))
    ), freed as (
      delete from ${table('effect_dedup')} k
       where k.effect_id = any(array(select p.effect_id from placed p where p.dedup_key is not null))
         and (not k.is_retained
              or k.effect_id = any(array(select p.effect_id from placed p, given g
                                          where p.dedup_key is not null and g.states[p.position] <> 'done')))
    )
    select claim_number from closed`;
}

function sortedByNumber(finishes: readonly Finish[]): Finish[] {
  const byNumber = new Map<bigint, Finish>();
  for (const finish of finishes) {
    if (!byNumber.has(finish.claim.claimNumber)) byNumber.set(finish.claim.claimNumber, finish);
  }
  return [...byNumber.values()].sort((a, b) => (a.claim.claimNumber < b.claim.claimNumber ? -1 : 1));
}
