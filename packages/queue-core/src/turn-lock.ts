import { SluiceError, table } from '@sluice/db';
import { sql, type Kysely, type RawBuilder } from 'kysely';

/** Keeps our advisory keys apart from those a caller derives from the same repo ids. */
const SEED = 7420;

/**
 * Key of a repo's turn lock. Whoever changes which effects of a repo are claimed or may wait (a claim, a cancellation,
 * a supersession, a bounded enqueue) holds it until commit and looks at rows only in a LATER statement: under READ
 * COMMITTED that statement's snapshot is newer than the lock, so it sees everything the previous holder committed.
 */
function turnKey(repoId: RawBuilder<unknown>): RawBuilder<bigint> {
  return sql<bigint>`hashtextextended(${repoId}, ${sql.lit(SEED)})`;
}

/** Waits for the turns of the given repos, in one order everywhere, so that two callers cannot wait for each other. */
export async function lockTurns<DB>(trx: Kysely<DB>, repoIds: readonly string[]): Promise<void> {
  const { rows } = await sql<{ isolation: string }>`
    select current_setting('transaction_isolation') as isolation, count(pg_advisory_xact_lock(key)::text)
      from (select distinct ${turnKey(sql.ref('repo_id'))} as key
              from unnest(${repoIds}::text[]) as given (repo_id) order by key offset 0) turns`.execute(trx);
  assertReadCommitted(rows[0]?.isolation);
}

/** Takes those of the given repos' turns that are free now and returns their repos, in the given order. */
export async function tryTurns<DB>(trx: Kysely<DB>, repoIds: readonly string[]): Promise<string[]> {
  const { rows } = await sql<{ repo_id: string; locked: boolean; isolation: string }>`
    select repo_id, pg_try_advisory_xact_lock(${turnKey(sql.ref('repo_id'))}) as locked,
           current_setting('transaction_isolation') as isolation
      from unnest(${repoIds}::text[]) as given (repo_id)`.execute(trx);
  assertReadCommitted(rows[0]?.isolation ?? 'read committed');
  return rows.filter((row) => row.locked).map((row) => row.repo_id);
}

/**
 * Takes the global turn, as every claim does: alone where a global cap is set, to count the claims of all repos; else
 * shared with all who claim, so that the first claim under a cap that was set meanwhile waits for them, and counts what
 * they took. Returns whether claims may be counted; if not, and a LATER statement sees a cap, nothing may be claimed.
 * Taken after repo turns, or before any is waited for, so that holders of the two kinds do not wait for each other.
 */
export async function lockGlobalTurn<DB>(trx: Kysely<DB>): Promise<boolean> {
  const { rows } = await sql<{ is_ours_alone: boolean }>`
    select l.global_cap is not null as is_ours_alone,
           case when l.global_cap is null then pg_advisory_xact_lock_shared(${GLOBAL_TURN_KEY})::text
                else pg_advisory_xact_lock(${GLOBAL_TURN_KEY})::text end
      from ${table('queue_limit')} l`.execute(trx);
  return rows[0]?.is_ours_alone === true;
}

/** The two-part key behind {@link lockGlobalTurn}; two-part and one-part keys never meet. */
const GLOBAL_TURN_KEY = sql`${sql.lit(SEED)}, 0`;

/** Keeps the keys of claimants apart from those of repos. */
const CLAIMANT_SEED = 7421;

/**
 * Key of the lock that a dispatcher's claim holds, shared, until it commits, and that whoever ends its registration
 * holds alone: a claim that is under way either commits before, and is then found, or sees that it is registered no
 * more. Taken after all others, or tried; so nobody waits in a circle.
 */
export function claimantKey(dispatcherId: string | RawBuilder<unknown>): RawBuilder<bigint> {
  return sql<bigint>`hashtextextended(${dispatcherId}, ${sql.lit(CLAIMANT_SEED)})`;
}

/** A snapshot fixed before the lock could not see what the previous holder claimed: refuse it rather than miscount. */
export function assertReadCommitted(isolation: string | undefined): void {
  if (isolation !== 'read committed') throw wrongIsolation(isolation);
}

export function wrongIsolation(isolation = 'another one'): SluiceError {
  return new SluiceError(
    'wrong_isolation',
    `expected a READ COMMITTED transaction, got ${isolation}: claims, cancellations and supersessions must see the newest rows.`,
  );
}
