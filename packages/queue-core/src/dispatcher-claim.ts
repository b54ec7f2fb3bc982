import { inBoundedTransaction, table, type DB } from '@sluice/db';
import { sql, type Kysely, type Transaction } from 'kysely';
import { assertList, assertRepoId, assertText, assertWhole } from './assert-argument.ts';
import { CLAIM_MAX } from './claim-effects.ts';
import { toClaimedEffect, type ClaimedEffect, type ClaimedRow } from './claim.ts';
import { promoteStatement } from './promote-due.ts';
import { nextClaimNumber } from './sequences.ts';
import { lockGlobalTurn, lockTurns, tryTurns } from './turn-lock.ts';

const EXCLUDE_MAX = 100_000;

/** Most due effects that one claim brings forward; the next claim continues. */
const PROMOTE_MAX = 1000;

/**
 * Claims up to `limit` of the oldest waiting effects across all repositories, skipping `excludeRepos` and those that
 * are paused; never beyond a repo's cap or the global cap. Returns fewer, at worst none, where a cap or another claimer
 * comes in between. `[]` excludes nothing; a NULL in the list is an error.
 *
 * It reads past the waiting effects of excluded and saturated repositories, so its cost grows with their backlog; and
 * priorities do not count here. A dispatcher for many repositories uses `fairClaim`.
 */
export async function dispatcherClaim(
  db: Kysely<DB>,
  request: { claimedBy: string; limit: number; excludeRepos: readonly string[] },
): Promise<ClaimedEffect[]> {
  const { claimedBy, limit, excludeRepos } = request;
  assertText('claimedBy', claimedBy, 200);
  assertWhole('limit', limit, 1, CLAIM_MAX);
  assertList('excludeRepos', excludeRepos, EXCLUDE_MAX);
  for (const [index, repoId] of excludeRepos.entries()) assertRepoId(`excludeRepos[${index}]`, repoId);
  return await inBoundedTransaction(db, async (trx) => {
    const { repoIds, oldest } = await findOldest(trx, { limit, excludeRepos });
    let turns = repoIds.length === 0 ? [] : await tryTurns(trx, repoIds);
    if (turns.length === 0 && repoIds.length > 0) {
      turns = repoIds.slice(0, 1);
      await lockTurns(trx, turns);
    }
    const hasGlobalTurn = await lockGlobalTurn(trx);
    // When nothing is waited for any more: whoever has the turn we wait for may wait for one of these rows, to cancel it.
    await promoteStatement(PROMOTE_MAX).execute(trx);
    if (turns.length === 0) return [];
    const { rows } = await takeStatement({ turns, oldest, hasGlobalTurn, claimedBy, limit }).execute(trx);
    return rows.map(toClaimedEffect);
  });
}

/**
 * Repos of the oldest effects that may be claimed, due ones included, and the id to start from. A hint: nothing is locked
 * yet.
 */
async function findOldest(trx: Transaction<DB>, request: { limit: number; excludeRepos: readonly string[] }) {
  const { rows } = await oldestStatement(request).execute(trx);
  return { repoIds: rows.map((row) => row.repo_id), oldest: BigInt(rows[0]?.oldest ?? 0) };
}

/**
 * The excluded are hashed with the others that are passed over: `<> all(array)` may be walked from its start for each
 * effect in front, which is their number times that of the repos.
 */
export function oldestStatement(request: { limit: number; excludeRepos: readonly string[] }) {
  return sql<{ repo_id: string; oldest: string }>`
    with blocked as materialized (
      select unnest(${request.excludeRepos}::text[]) collate "C" as repo_id
       union all
      select repo_id from ${table('repo')} where paused_at is not null
       union all
      select c.repo_id from ${table('effect_claim')} c join ${table('repo')} r on r.repo_id = c.repo_id
       where r.cap is not null group by c.repo_id, r.cap having count(*) >= r.cap
    )
    select repo_id, min(effect_id)::text as oldest
      from ((select q.repo_id, q.effect_id
               from ${table('effect_queue')} q
              where q.run_at is null
                and q.repo_id not in (select b.repo_id from blocked b)
                and q.effect_id not in (select c.effect_id from ${table('effect_claim')} c)
              order by q.effect_id limit ${request.limit})
            union all
            (select q.repo_id, q.effect_id
               from ${table('effect_queue')} q
              where q.run_at <= statement_timestamp()
                and q.repo_id not in (select b.repo_id from blocked b)
              order by q.run_at, q.effect_id limit ${PROMOTE_MAX}::int)
            order by effect_id limit ${request.limit}) waiting
     group by repo_id order by min(effect_id)`;
}

/** Takes the oldest effects of the repos whose turn is held since an EARLIER statement, within the room of each. */
function takeStatement(request: {
  turns: readonly string[];
  oldest: bigint;
  /** Whether the claims of all repos may be counted. */
  hasGlobalTurn: boolean;
  claimedBy: string;
  limit: number;
}) {
  const claims = table('effect_claim');
  return sql<ClaimedRow>`
    with turn as materialized (
      select given.repo_id,
             case when r.paused_at is not null then 0
                  when r.cap is not null
                  then r.cap - (select count(*) from ${claims} c where c.repo_id = given.repo_id)
                  else ${request.limit}::bigint end as room
        from (select unnest(${request.turns}::text[]) collate "C" as repo_id) given
        left join ${table('repo')} r on r.repo_id = given.repo_id
    ), total as materialized (
      select (select jsonb_object_agg(repo_id, room) from turn) as rooms,
             (select case when l.global_cap is null then ${request.limit}::bigint
                          -- The cap was set after we looked: nobody may count yet.
                          when not ${request.hasGlobalTurn}::boolean then 0
                          else l.global_cap - (select count(*) from ${claims}) end
                from ${table('queue_limit')} l) as room
    ), oldest as materialized (
      select q.effect_id, q.repo_id, q.name, q.payload, q.attempts + 1 as attempt, q.max_attempts, q.push_id
        from ${table('effect_queue')} q
       where q.run_at is null and q.effect_id >= ${request.oldest}
         and q.repo_id = any(array(select turn.repo_id from turn where room > 0))
         and q.effect_id not in (select c.effect_id from ${claims} c)
       order by q.effect_id limit ${request.limit}
         for update of q skip locked
    ), ranked as (
      select oldest.*, row_number() over (partition by repo_id order by effect_id) as nth from oldest
    ), within as (
      select ranked.*, row_number() over (order by effect_id) as nth_of_all
        from ranked, total where nth <= (total.rooms ->> repo_id)::bigint
    ), numbered as materialized (
      select ${nextClaimNumber} as claim_number, ${request.claimedBy}::text as claimant, picked.*
        from (select within.* from within, total where nth_of_all <= total.room order by effect_id) picked
    ), kept as (
      insert into ${claims} (repo_id, claim_number, effect_id, attempt, claimant)
      select repo_id, claim_number, effect_id, attempt, claimant from numbered
    )
    select effect_id::text, repo_id, claim_number::text, attempt, claimant, name, payload, max_attempts, push_id
      from numbered order by numbered.effect_id`;
}
