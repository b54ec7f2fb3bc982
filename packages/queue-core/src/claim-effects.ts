import { table, type DB } from '@sluice/db';
import { sql, type Kysely, type Transaction } from 'kysely';
import { assertRepoId, assertText, assertWhole } from './assert-argument.ts';
import { toClaimedEffect, type ClaimedEffect, type ClaimedRow } from './claim.ts';
import { inClaimTransaction } from './in-claim-transaction.ts';
import { nextClaimNumber } from './sequences.ts';
import { lockGlobalTurn, lockTurns } from './turn-lock.ts';

/** Most effects of one claim. */
export const CLAIM_MAX = 10_000;

/** Most due effects that one claim brings forward; the next claim continues. */
const PROMOTE_MAX = 10_000;

/**
 * Claims up to `limit` of this repo's waiting effects, by priority and then age, scheduled ones that are due included.
 * Concurrent callers never share one. Nothing is claimed while the repo is paused, nor beyond its cap or the global
 * cap. Both hold exactly, also for a caller's transaction that stays open: other claimers of the repo wait for its
 * end, 5 s at most. An unknown repo has no effects, so it yields none.
 */
export async function claimEffects(
  db: Kysely<DB>,
  request: { repoId: string; claimedBy: string; limit: number },
): Promise<ClaimedEffect[]> {
  const { repoId, claimedBy, limit } = request;
  assertRepoId('repoId', repoId);
  assertText('claimedBy', claimedBy, 200);
  assertWhole('limit', limit, 1, CLAIM_MAX);
  return await inClaimTransaction(db, async (trx) => {
    await lockTurns(trx, [repoId]);
    const hasGlobalTurn = await lockGlobalTurn(trx);
    const turn = await readTurn(trx, repoId, hasGlobalTurn);
    const take = Math.min(limit, turn.room ?? limit);
    if (take > 0 && turn.hasDue) await promoteDueOfRepo(trx, repoId);
    const { rows } =
      take > 0 ? await claimStatement({ repoId, claimedBy, limit: take }).execute(trx) : { rows: [] };
    return rows.map(toClaimedEffect);
  });
}

interface Turn {
  /** How many more effects may be claimed; NULL: no cap is set. */
  room: number | null;
  hasDue: boolean;
}

/**
 * What the repo may claim now; exact, since this runs in a statement after the ones that took its turn and the
 * global one. It also fixes
 * how the claim is planned: where statistics were taken before a backlog grew, the planner expects a handful of rows
 * and sorts all of them (measured with a million: 0.5 s), when the index has them in order.
 */
async function readTurn(trx: Transaction<DB>, repoId: string, hasGlobalTurn: boolean): Promise<Turn> {
  const claims = table('effect_claim');
  const { rows } = await sql<Turn>`
    select set_config('enable_bitmapscan', 'off', true),
           least(case when r.paused_at is not null then 0 end,
                 case when r.cap is not null
                      then r.cap - (select count(*) from ${claims} c where c.repo_id = given.repo_id) end,
                 case when l.global_cap is null then null
                      -- The cap was set after we looked: nobody may count yet.
                      when not ${hasGlobalTurn}::boolean then 0
                      else l.global_cap - (select count(*) from ${claims}) end
           )::integer as room,
           exists (select from ${table('effect_queue')} q
                    where q.repo_id = given.repo_id and q.run_at <= statement_timestamp()) as "hasDue"
      from (select ${repoId}::text collate "C" as repo_id) given
     cross join ${table('queue_limit')} l
      left join ${table('repo')} r on r.repo_id = given.repo_id`.execute(trx);
  return rows[0]!;
}

async function promoteDueOfRepo(trx: Transaction<DB>, repoId: string): Promise<void> {
  const queue = table('effect_queue');
  await sql`
    update ${queue} set run_at = null
     where effect_id = any(array(select q.effect_id from ${queue} q
                                  where q.repo_id = ${repoId} and q.run_at <= statement_timestamp()
                                  order by q.run_at, q.effect_id limit ${PROMOTE_MAX}
                                    for update skip locked))`.execute(trx);
}

/**
 * Takes the first effects in the order of `effect_queue_claim_idx`. The repo's open claims are read once and hashed:
 * `not in`, unlike `not exists`, is never planned as a join with the whole backlog, nor as one look at all claims for
 * each effect. The limit is a plain value, so that the planner knows how short the walk is. Claim numbers are drawn
 * before the insert, so nothing is joined afterwards.
 */
export function claimStatement(request: { repoId: string; claimedBy: string; limit: number }) {
  return sql<ClaimedRow>`
    with picked as materialized (
      select q.effect_id, q.repo_id, q.name, q.payload, q.attempts + 1 as attempt, q.max_attempts, q.push_id, q.priority
        from ${table('effect_queue')} q
       where q.repo_id = ${request.repoId} and q.run_at is null
         and q.effect_id not in (select c.effect_id from ${table('effect_claim')} c where c.repo_id = ${request.repoId})
       order by q.priority desc, q.effect_id
       limit ${request.limit}
         for update of q skip locked
    ), numbered as materialized (
      select ${nextClaimNumber} as claim_number, ${request.claimedBy}::text as claimant, picked.* from picked
    ), kept as (
      insert into ${table('effect_claim')} (repo_id, claim_number, effect_id, attempt, claimant)
      select repo_id, claim_number, effect_id, attempt, claimant from numbered
    )
    select effect_id::text, repo_id, claim_number::text, attempt, claimant, name, payload, max_attempts, push_id
      from numbered order by numbered.priority desc, numbered.effect_id`;
}
