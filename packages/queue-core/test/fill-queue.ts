import { SCHEMA, table, type DB } from '@sluice/db';
import { sql, type Kysely } from 'kysely';
import type { ClaimedEffect } from '../src/claim.ts';
import { fairClaim } from '../src/fair-claim.ts';

const TABLES = [
  'effect_queue',
  'effect_claim',
  'effect_dedup',
  'effect_history',
  'effect_log',
  'dispatcher',
  'repo',
] as const;

/** Leaves the database as it was migrated. */
export async function emptyQueue(db: Kysely<DB>): Promise<void> {
  await sql`truncate ${sql.join(TABLES.map((name) => table(name)))} cascade`.execute(db);
  await sql`update ${sql.id(SCHEMA, 'queue_limit')} set global_cap = null`.execute(db);
}

/** Puts that many effects of a repo into the queue and returns their ids, oldest first. */
export async function fillQueue(
  db: Kysely<DB>,
  repoId: string,
  count: number,
  columns: { priority?: number; maxAttempts?: number; runInMs?: number } = {},
): Promise<bigint[]> {
  const { rows } = await sql<{ effect_id: bigint }>`
    insert into ${table('effect_queue')} (repo_id, payload, priority, max_attempts, run_at)
    select ${repoId}, 'p' || n, ${columns.priority ?? 0}::int, ${columns.maxAttempts ?? 3}::int,
           now() + ${columns.runInMs ?? null}::float8 * interval '1 millisecond'
      from generate_series(1, ${count}::int) n
    returning effect_id`.execute(db);
  return rows.map((row) => row.effect_id);
}

/** Claims up to `want` effects of a repo that has no cap. */
export async function claimSome(
  db: Kysely<DB>,
  repoId: string,
  want: number,
  claimedBy = 'd1',
): Promise<ClaimedEffect[]> {
  const turns = [{ repoId, want }];
  const { effects } = await fairClaim(db, { claimedBy, turns, defaultCap: 100_000 });
  return effects;
}

/** How many open claims each repo has. */
export async function openClaims(db: Kysely<DB>): Promise<Record<string, number>> {
  const { rows } = await sql<{ repo_id: string; open: number }>`
    select repo_id, count(*)::int as open from ${table('effect_claim')} group by repo_id`.execute(db);
  return Object.fromEntries(rows.map((row) => [row.repo_id, row.open]));
}
