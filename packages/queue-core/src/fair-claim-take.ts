import { PREPARED, table } from '@sluice/db';
import { sql, type CompiledQuery, type RawBuilder } from 'kysely';
import { isDispatcherId } from './assert-argument.ts';
import { HELD, HELD_CLAIMANT, HELD_GLOBAL } from './fair-claim-lock.ts';
import { lastClaimNumber, nextClaimNumber } from './sequences.ts';
import { filled, once, templateOf } from './template.ts';

/** A repo to claim from. */
export interface ClaimTurn {
  repoId: string;
  /** Most effects to take. */
  want: number;
  /** `lowestClaim` of the last finding: no claim of this repo below it is open. Exact, so it may bound the count. */
  sinceClaimNumber?: bigint | undefined;
  /** `lowestWaiting` of the last finding: a hint. Effects of priority 0 below it are not looked at. */
  sinceEffectId?: bigint | undefined;
  /**
   * Wait until other claimers are done with this repo, for a moment (`awaitMs`). For one that was found busy: claims that
   * take what others leave do not add up to fair shares. Where a global cap is set, claims come one after the other, and
   * nothing is waited for.
   */
  isAwaited?: boolean | undefined;
}

/** A row of the take statement: a repo that was looked at, or (with an effect id) an effect that was taken. */
export interface TakenRow {
  repo_id: string;
  weight: number | null;
  cap: number | null;
  open_claims: number | null;
  is_paused: boolean | null;
  lowest_claim: string | null;
  global_room: number | null;
  effect_id: string | null;
  claim_number: string | null;
  attempt: number | null;
  name: string | null;
  payload: string | null;
  priority: number | null;
  max_attempts: number | null;
  push_id: string | null;
}

/**
 * Second statement of a fair claim: counts what is open in each repo whose turn the transaction holds, and takes what
 * room is left. It must be a statement of its own, after the lock: its snapshot then shows everything that earlier
 * holders of the lock committed, and only holders of the lock open claims, so the count cannot be too low.
 *
 * Nothing is looked at in the name of a dispatcher that is no longer registered.
 *
 * Cost, with n effects taken from m repos: m descents of three indexes, the open claims of each repo, and n
 * rows. Neither the backlog of a repo nor finished effects are read.
 */
export function fairClaimTake(options: {
  claimedBy: string;
  turns: readonly ClaimTurn[];
  defaultCap: number;
}): CompiledQuery<TakenRow> {
  const { claimedBy, turns, defaultCap } = options;
  return filled(isDispatcherId(claimedBy) ? ofDispatcher() : ofAnybody(), {
    claimedBy,
    defaultCap,
    repoIds: turns.map((turn) => turn.repoId),
    wants: turns.map((turn) => turn.want),
    sinceClaims: turns.map((turn) => turn.sinceClaimNumber ?? 0n),
    sinceEffects: turns.map((turn) => turn.sinceEffectId ?? 0n),
  });
}

type Name = 'claimedBy' | 'defaultCap' | 'repoIds' | 'wants' | 'sinceClaims' | 'sinceEffects';

const ofDispatcher = once(() =>
  templateOf((value) =>
    statement(
      value,
      sql`(select current_setting(${sql.lit(HELD_CLAIMANT)}, true) = 'true'
                   and exists (select from ${table('dispatcher')} where dispatcher_id = ${value('claimedBy')}::text::uuid))`,
    ),
  ),
);
const ofAnybody = once(() => templateOf((value) => statement(value, sql`true`)));

function statement(
  value: (name: Name) => RawBuilder<unknown>,
  isRegistered: RawBuilder<unknown>,
): RawBuilder<unknown> {
  return sql`${PREPARED}
    with limits as materialized (
      select case
               when global_cap is null then null
               -- The cap was set after the lock statement looked: nobody may count yet.
               when current_setting(${sql.lit(HELD_GLOBAL)}, true) is distinct from 'true' then 0
               else greatest(0, global_cap - (
                 select count(*)::int from (select from ${table('effect_claim')} limit global_cap) open))
             end as global_room
        from ${table('queue_limit')}
       where is_singleton
    ), turns as materialized (
      select *
        from unnest(${value('repoIds')}::text[],
                    ${value('wants')}::int[],
                    ${value('sinceClaims')}::bigint[],
                    ${value('sinceEffects')}::bigint[])
             with ordinality as turn (repo_id, want, since_claim, since_effect, position)
       where get_bit((select nullif(current_setting(${sql.lit(HELD)}, true), '')::varbit), position::int - 1) = 1
         and ${isRegistered}
    ), looked as materialized (
      select turns.*, coalesce(repo.weight, 1) as weight, coalesce(repo.cap, ${value('defaultCap')}::int) as cap,
             repo.paused_at is not null as is_paused, open.claims as open_claims,
             -- No claim open: whoever claims next draws a higher number than any drawn so far.
             coalesce(open.lowest, (select ${lastClaimNumber})) as lowest_claim
        from turns
        -- "offset 0" keeps a subquery a subquery: looked up once per turn, never joined with the whole table.
        left join lateral (
          select weight, cap, paused_at from ${table('repo')} r where r.repo_id = turns.repo_id offset 0
        ) repo on true
        cross join lateral (
          select count(*)::int as claims, min(claim_number) as lowest
            from ${table('effect_claim')} c
           -- Pairs, so that only the index on the pair fits, and its walk begins at the mark.
           where (c.repo_id, c.claim_number) between (turns.repo_id, turns.since_claim) and (turns.repo_id, ${MAX})
        ) open
    ), picked as materialized (
      select open.repo_id, ${nextClaimNumber} as claim_number, waiting.*
        from (select *, least(want, cap - open_claims) as room from looked
               where not is_paused and cap > open_claims order by position) open
        cross join lateral (
          -- Highest priority first: the branches run in this order, and each only while there is room.
          select * from (${waiting(sql`priority >= 1`)}) urgent
          union all
          -- A range, although it holds one value: an equality would make the primary key look sorted enough, and the
          -- planner would walk the whole queue by id for one repo's rows.
          select * from (${waiting(sql`priority >= 0 and priority <= 0 and effect_id >= open.since_effect`)}) ordinary
          union all
          select * from (${waiting(sql`priority <= -1`)}) patient
          limit open.room
        ) waiting
       limit (select global_room from limits)
    ), claimed as (
      insert into ${table('effect_claim')} (repo_id, claim_number, effect_id, attempt, claimant)
      select repo_id, claim_number, effect_id, attempt, ${value('claimedBy')}::text from picked
    )
    select repo_id, weight, cap, open_claims, is_paused, lowest_claim::text,
           (select global_room from limits) as global_room,
           null::text as effect_id, null::text as claim_number, null::int as attempt, null::text as name,
           null::text as payload, null::int as priority, null::int as max_attempts, null::text as push_id
      from looked
    union all
    select repo_id, null, null, null, null, null, null,
           effect_id::text, claim_number::text, attempt, name, payload, priority, max_attempts, push_id
      from picked`;
}

/** Above every claim number. */
const MAX = sql.lit(String(2n ** 63n - 1n));

/**
 * Waiting effects of one repo within a range of its claim index, in claim order. Their rows need no lock: whoever claims,
 * cancels or supersedes a waiting effect holds its repo's turn, which is ours now. Measured, it saves a tenth.
 */
function waiting(range: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`
    select effect_id, attempts + 1 as attempt, name, payload, priority::int, max_attempts, push_id
      from ${table('effect_queue')} q
     where q.repo_id = open.repo_id and q.run_at is null and ${range}
       and not exists (select from ${table('effect_claim')} c where c.effect_id = q.effect_id offset 0)
     order by q.priority desc, q.effect_id
     limit open.room`;
}
