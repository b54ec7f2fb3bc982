import { inBoundedTransaction, table, type DB } from '@sluice/db';
import { sql, type Kysely, type RawBuilder, type Transaction } from 'kysely';
import { assertWhole } from './assert-argument.ts';
import { endFuture } from './end-future.ts';
import { lockClaims, takeBackClaims } from './take-back-claims.ts';
import { assertReadCommitted, claimantKey } from './turn-lock.ts';

/** Most dispatchers, and most batches of claims, that one call deals with; the next call goes on. */
const DISPATCHERS_MAX = 1_000;
const BATCHES_MAX = 1_000;
const BATCH = 1_000;
const CLAIMS_MAX = 1_000_000;
const AGE_MS_MAX = 2 ** 31 - 1;

/**
 * Takes back the claims of claimants that are gone, and returns how many. Two kinds:
 *
 * - A registered dispatcher whose heartbeat is older than its own lease loses all its claims and its registration, in
 *   one transaction: it never keeps some of the two. A heartbeat protects its claims, however old they are.
 * - A claimant that is not registered loses a claim older than `olderThanMs`.
 *
 * The attempt is spent, since it may be the effect that kills its dispatcher: after the last one the effect is dead.
 * Nothing here waits: a dispatcher one of whose claims is being made or finished at this moment, and any other claim that
 * is being finished, is left for the next call.
 *
 * All ages are of one moment, by the database's clock. `agesFrom` is told it, in milliseconds since 1970, before anything
 * is judged, and returns the moment from which on time counts: for who noticed that this clock was set forward, which
 * makes everything look old at once.
 */
export async function dispatcherRequeueStale(
  db: Kysely<DB>,
  {
    olderThanMs,
    agesFrom = () => -Infinity,
  }: { olderThanMs: number; agesFrom?: (databaseMs: number) => number },
): Promise<number> {
  assertWhole('olderThanMs', olderThanMs, 0, AGE_MS_MAX);
  await endFuture(db);
  const now = await secondsNow(db);
  const span: Span = { from: String(agesFrom(Number(now) * 1_000) / 1_000), now };
  let requeued = 0;
  let after: Place = { beatSeconds: '-infinity', id: '00000000-0000-0000-0000-000000000000' };
  for (let round = 0; round < DISPATCHERS_MAX; round += 1) {
    const result = await inBoundedTransaction(db, (trx) => buryDispatcher(trx, span, after));
    if (result === undefined) break;
    requeued += result.requeued;
    after = result.place;
  }
  for (let round = 0; round < BATCHES_MAX; round += 1) {
    const batch = await inBoundedTransaction(db, (trx) => takeBackUnregistered(trx, span, olderThanMs));
    requeued += batch;
    if (batch < BATCH) break;
  }
  return requeued;
}

/** What counts of the time: what is older than `from` is as old as that. Seconds since 1970, exact, hence as text. */
interface Span {
  from: string;
  now: string;
}

async function secondsNow(db: Kysely<DB>): Promise<string> {
  const { rows } = await sql<{
    now: string;
  }>`select extract(epoch from clock_timestamp())::text as now`.execute(db);
  return rows[0]!.now;
}

/** Whether that much of the span has passed since an instant. */
function isOlder(
  at: RawBuilder<unknown>,
  seconds: RawBuilder<unknown>,
  { from, now }: Span,
): RawBuilder<boolean> {
  return sql<boolean>`greatest(extract(epoch from ${at}), ${from}::numeric) < ${now}::numeric - ${seconds}`;
}

/** A dispatcher's place in the order of heartbeats, likewise exact. */
interface Place {
  beatSeconds: string;
  id: string;
}

/** Deals with the first dead dispatcher after the given place; undefined: there is none. */
async function buryDispatcher(
  trx: Transaction<DB>,
  span: Span,
  after: Place,
): Promise<{ requeued: number; place: Place } | undefined> {
  const { rows } = await sql<{ id: string; host: string; pid: number; beat_seconds: string }>`
    select dispatcher_id::text as id, host, pid, extract(epoch from heartbeat_at)::text as beat_seconds
      from ${table('dispatcher')}
     where ${isOlder(sql`heartbeat_at`, sql`lease_ms / 1000.0`, span)}
       and (extract(epoch from heartbeat_at), dispatcher_id) > (${after.beatSeconds}::numeric, ${after.id}::uuid)
     order by heartbeat_at, dispatcher_id
     limit 1
       for update skip locked`.execute(trx);
  const dead = rows[0];
  if (dead === undefined) return undefined;
  const place = { beatSeconds: dead.beat_seconds, id: dead.id };
  // A claim of its own may be about to commit: it would be nobody's, once the registration is gone.
  const alone = await sql<{ is_held: boolean; isolation: string }>`
    select pg_try_advisory_xact_lock(${claimantKey(dead.id)}) as is_held,
           current_setting('transaction_isolation') as isolation`.execute(trx);
  assertReadCommitted(alone.rows[0]?.isolation);
  if (!alone.rows[0]!.is_held) return { requeued: 0, place };
  const claims = await lockClaims(trx, { where: sql`c.claimant = ${dead.id}`, limit: CLAIMS_MAX });
  // In a later statement, so that it counts what was committed meanwhile.
  const all = await sql<{ count: number }>`
    select count(*)::int as count from ${table('effect_claim')} where claimant = ${dead.id}`.execute(trx);
  if (all.rows[0]!.count !== claims.length) return { requeued: 0, place };
  await takeBackClaims(
    trx,
    claims,
    `its dispatcher was lost: process ${dead.pid} on ${dead.host} stopped beating`,
  );
  await trx.deleteFrom('dispatcher').where('dispatcher_id', '=', dead.id).execute();
  return { requeued: claims.length, place };
}

async function takeBackUnregistered(trx: Transaction<DB>, span: Span, olderThanMs: number): Promise<number> {
  const claims = await lockClaims(trx, {
    where: sql`${isOlder(sql`c.claimed_at`, sql`${olderThanMs}::int / 1000.0`, span)}
      and not exists (select from ${table('dispatcher')} d where d.dispatcher_id::text = c.claimant)`,
    limit: BATCH,
  });
  if (claims.length > 0) await takeBackClaims(trx, claims, 'its claimant did not finish it in time');
  return claims.length;
}
