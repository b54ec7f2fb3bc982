import { PREPARED, table, type DB } from '@sluice/db';
import { sql, type Kysely } from 'kysely';
import { assertWhole } from './assert-argument.ts';
import { lastEffectId } from './sequences.ts';

/** An effect that came after a certain one. */
export interface Arrival {
  effectId: bigint;
  repoId: string;
  /** Neither scheduled nor claimed when it was looked at. */
  isWaiting: boolean;
}

const LIMIT_MAX = 10_000;

/**
 * The first effects after the given one that are not finished, in order of their ids. It reads no more rows than it
 * returns. Not every effect is found by going on from the last one returned: one whose transaction commits late has a
 * lower id than some that were seen before.
 */
export async function arrivalsAfter(
  db: Kysely<DB>,
  { effectId, limit }: { effectId: bigint; limit: number },
): Promise<Arrival[]> {
  assertWhole('limit', limit, 1, LIMIT_MAX);
  const { rows } = await arrivalsStatement(effectId, limit).execute(db);
  return rows.map((row) => ({
    effectId: BigInt(row.effect_id),
    repoId: row.repo_id,
    isWaiting: row.is_waiting,
  }));
}

/** The statement behind {@link arrivalsAfter}. */
export function arrivalsStatement(effectId: bigint, limit: number) {
  return sql<{ effect_id: string; repo_id: string; is_waiting: boolean }>`${PREPARED}
    select effect_id::text, repo_id,
           run_at is null and (select c.effect_id from ${table('effect_claim')} c where c.effect_id = recent.effect_id) is null
             as is_waiting
      from (select effect_id, repo_id, run_at from ${table('effect_queue')}
             where effect_id > ${effectId}::bigint order by effect_id limit ${limit}::int) recent
     order by recent.effect_id`;
}

/** The highest effect id drawn so far; 0 if none was. Some below it may not be committed yet. */
export async function highestEffectId(db: Kysely<DB>): Promise<bigint> {
  const { rows } = await sql<{ id: string }>`select (${lastEffectId})::text as id`.execute(db);
  return BigInt(rows[0]!.id);
}
