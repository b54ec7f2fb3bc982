import { dateOf, type DB, instant, table } from '@sluice/db';
import { sql, type Kysely } from 'kysely';
import { assertRepoId, assertWhole } from './assert-argument.ts';
import type { EffectId } from './effect-id.ts';

/** A claimed effect, as people want to see it. */
export interface RunningEffect {
  effectId: EffectId;
  repoId: string;
  name: string;
  attempt: number;
  claimNumber: bigint;
  claimant: string;
  /** Where the claimant runs, by its registration; null: it is no dispatcher, or gone. */
  process: { host: string; pid: number } | null;
  claimedAt: Date;
}

const LIMIT_MAX = 1_000;

/** Effects with an open claim, of one repo or of all, oldest claim first. */
export async function runningEffects(
  db: Kysely<DB>,
  request: { repoId?: string | undefined; limit?: number | undefined } = {},
): Promise<RunningEffect[]> {
  const { repoId, limit = 100 } = request;
  if (repoId !== undefined) assertRepoId('repoId', repoId);
  assertWhole('limit', limit, 1, LIMIT_MAX);
  const { rows } = await sql<{
    effect_id: string;
    repo_id: string;
    name: string;
    attempt: number;
    claim_number: string;
    claimant: string;
    host: string | null;
    pid: number | null;
    claimed_at: string;
  }>`
    select c.effect_id::text, c.repo_id, q.name, c.attempt, c.claim_number::text, c.claimant, d.host, d.pid,
           ${instant(sql`c.claimed_at`)} as claimed_at
      from (select * from ${table('effect_claim')}
             where ${repoId === undefined ? sql`true` : sql`repo_id = ${repoId}`}
             order by claim_number limit ${limit}::int) c
      join ${table('effect_queue')} q on q.effect_id = c.effect_id
      left join ${table('dispatcher')} d on d.dispatcher_id::text = c.claimant
     order by c.claim_number`.execute(db);
  return rows.map((row) => ({
    effectId: BigInt(row.effect_id) as EffectId,
    repoId: row.repo_id,
    name: row.name,
    attempt: row.attempt,
    claimNumber: BigInt(row.claim_number),
    claimant: row.claimant,
    process: row.host === null || row.pid === null ? null : { host: row.host, pid: row.pid },
    claimedAt: dateOf(row.claimed_at),
  }));
}
