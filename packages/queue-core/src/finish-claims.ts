import { PREPARED, table, type DB } from '@sluice/db';
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
 */
export async function finishClaims(db: Kysely<DB>, finishes: readonly Finish[]): Promise<bigint[]> {
  if (finishes.length === 0) return [];
  const { rows } = await finishStatement(finishes).execute(db);
  return rows.map((row) => BigInt(row.claim_number));
}

/**
 * The statement behind {@link finishClaims}. No step joins two sets of rows. Open claims are few and short-lived, so
 * statistics about them are wrong more often than right: a join planned on "there are none" is a nested loop of rows²
 * comparisons, and one planned on "there are many" reads the whole queue. Instead, rows are found by `= any(array)`
 * through an index and meet their input in one jsonb object or, by `width_bucket`, in a sorted array: binary searches.
 */
export function finishStatement(finishes: readonly Finish[]) {
  const facts = new Map<string, object>();
  for (const finish of finishes) {
    const key = String(finish.claim.claimNumber);
    if (!facts.has(key)) facts.set(key, factsOf(finish));
  }
  return sql<{ claim_number: bigint | string }>`${PREPARED}
    with given as materialized (
      select ${JSON.stringify(Object.fromEntries(facts))}::jsonb as facts
    ), closed as (
      delete from ${table('effect_claim')} c using given
       where c.claim_number = any(${[...facts.keys()]}::bigint[])
         and given.facts -> c.claim_number::text -> 'fence'
             = jsonb_build_array(c.effect_id::text, c.repo_id, c.attempt, c.claimant)
      returning c.effect_id, c.claim_number, c.claimed_at
    ), accepted as materialized (
      select array_agg(effect_id order by effect_id) as effects,
             array_agg(claim_number order by effect_id) as numbers,
             array_agg(claimed_at order by effect_id) as claimed_at
        from closed
    ), removed as (
      delete from ${table('effect_queue')} q
       where q.effect_id = any((select effects from accepted)::bigint[])
      returning q.*
    ), finished as (
      select q.*, a.numbers[nth] as claim_number, a.claimed_at[nth] as claimed_at,
             given.facts -> a.numbers[nth]::text as fact
        from removed q, given, accepted a, width_bucket(q.effect_id, a.effects) as nth
    ), kept as (
      insert into ${table('effect_history')}
             (effect_id, repo_id, name, payload, state, outcome, reason, priority, attempts, max_attempts, dedup_key,
              concurrency_group, push_id, claim_number, claimant, result_ref, enqueued_at, claimed_at)
      select effect_id, repo_id, name, payload, fact ->> 'state', fact ->> 'outcome', fact ->> 'reason', priority,
             attempts + 1, max_attempts, dedup_key, concurrency_group, push_id, claim_number, fact -> 'fence' ->> 3,
             fact ->> 'resultRef', enqueued_at, claimed_at
        from finished
    ), retained as (
      update ${table('effect_dedup')} k set done_at = now()
       where k.is_retained
         and k.effect_id = any(array(select effect_id from finished
                                      where dedup_key is not null and fact ->> 'state' = 'done'))
    ), freed as (
      delete from ${table('effect_dedup')} k
       where k.effect_id = any(array(select effect_id from finished where dedup_key is not null))
         and (not k.is_retained
              or k.effect_id = any(array(select effect_id from finished
                                          where dedup_key is not null and fact ->> 'state' <> 'done')))
    )
    select claim_number from closed`;
}

function factsOf({ claim, state, outcome, reason, resultRef }: Finish): object {
  return {
    fence: [String(claim.effectId), claim.repoId, claim.attempt, claim.claimant],
    state,
    outcome,
    reason,
    resultRef,
  };
}
