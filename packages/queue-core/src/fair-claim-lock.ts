import { PREPARED, table } from '@sluice/db';
import { sql, type CompiledQuery, type RawBuilder } from 'kysely';
import { isDispatcherId } from './assert-argument.ts';
import { filled, once, templateOf } from './template.ts';
import { claimantKey, GLOBAL_TURN_KEY, turnKey } from './turn-lock.ts';

/** Setting of the transaction by which the take statement learns what is held: a bit for each turn, in their order. */
export const HELD = 'sluice.held_turns';
/** Whether the turn to count claims of all repos is held. */
export const HELD_GLOBAL = 'sluice.held_global_turn';
/** Whether the registration of the claimant is held; true for a claimant that needs none. */
export const HELD_CLAIMANT = 'sluice.held_claimant';

/** What the lock statement says: the isolation level, and a 1 for each turn that is held. */
export interface LockRow {
  isolation: string;
  held: string;
}

/**
 * First statement of a fair claim: tries the turn lock of each named repo, without waiting for any but the `awaited`. What
 * it got stays on the server, as a setting of the transaction, so that the take statement needs no answer from this one
 * and both can travel together.
 *
 * If a global cap is set, its turn is waited for first: a claimer that waits there holds up no repo, and one that has
 * it waits for nothing else. Else the awaited turns come first, in the order of all who wait for turns. The locks are
 * tried in a materialised CTE, since the planner may call a function in a plain query for more rows than it returns.
 *
 * It also fixes how the take statement is planned. Open claims are so few that a sequential scan looks cheap for each
 * effect that is tested, and becomes rows² comparisons; and compilation costs a hundred times more than the claim.
 */
export function fairClaimLock(
  repoIds: readonly string[],
  claimedBy: string,
  awaited: { repoIds: readonly string[]; ms: number } = { repoIds: [], ms: 0 },
): CompiledQuery<LockRow> {
  return filled(isDispatcherId(claimedBy) ? ofDispatcher() : ofAnybody(), {
    repoIds,
    claimedBy,
    awaitedIds: awaited.repoIds,
    awaitMs: String(awaited.ms),
  });
}

type Name = 'repoIds' | 'claimedBy' | 'awaitedIds' | 'awaitMs';

// Nobody else may end the registration until this claim has committed.
const ofDispatcher = once(() =>
  templateOf((value) =>
    statement(value, sql`pg_try_advisory_xact_lock_shared(${claimantKey(value('claimedBy'))})`),
  ),
);
const ofAnybody = once(() => templateOf((value) => statement(value, sql`true`)));

function statement(
  value: (name: Name) => RawBuilder<unknown>,
  claimant: RawBuilder<unknown>,
): RawBuilder<unknown> {
  return sql`${PREPARED}
    with limits as materialized (
      select (select global_cap from ${table('queue_limit')} where is_singleton) as global_cap,
             current_setting('lock_timeout') as lock_timeout
    ), global_turn as materialized (
      select case when global_cap is null then false
                  else pg_advisory_xact_lock(${GLOBAL_TURN_KEY})::text is not null end as is_held
        from limits
    ), awaited as materialized (
      select count(pg_advisory_xact_lock(key)::text)
        from (select distinct ${turnKey(sql.ref('repo_id'))} as key
                from global_turn, unnest(${value('awaitedIds')}::text[]) as given (repo_id),
                     set_config('lock_timeout', ${value('awaitMs')}::text, true)
               where not global_turn.is_held order by key offset 0) keys
    ), turns as materialized (
      select turn.position, pg_try_advisory_xact_lock(${turnKey(sql.ref('turn.repo_id'))}) as is_held
        from awaited, unnest(${value('repoIds')}::text[]) with ordinality as turn (repo_id, position)
    )
    select current_setting('transaction_isolation') as isolation,
           set_config(${sql.lit(HELD)}, string_agg(is_held::int::text, '' order by position), true) as held,
           set_config('lock_timeout', (select lock_timeout from limits), true),
           set_config(${sql.lit(HELD_GLOBAL)}, (select is_held::text from global_turn), true),
           set_config(${sql.lit(HELD_CLAIMANT)}, (${claimant})::text, true),
           set_config('enable_seqscan', 'off', true),
           set_config('enable_bitmapscan', 'off', true),
           set_config('jit', 'off', true)
      from turns`;
}
