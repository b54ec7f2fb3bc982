import { table, type DB } from '@sluice/db';
import { sql, type Kysely } from 'kysely';
import { assertWhole } from './assert-argument.ts';
import type { EffectId } from './effect-id.ts';

/** A stored piece of output. */
export interface StoredChunk {
  /** The run that wrote it. */
  claimNumber: bigint;
  attempt: number;
  seq: number;
  bytes: Uint8Array;
  loggedAt: Date;
}

const LIMIT_MAX = 10_000;

/** A page of an effect's output, run after run, each in its order; `after` is the last chunk of the page before. */
export async function readLog(
  db: Kysely<DB>,
  request: {
    effectId: EffectId;
    after?: { claimNumber: bigint; seq: number } | undefined;
    /** Most chunks; the default is 1,000. */
    limit?: number | undefined;
  },
): Promise<StoredChunk[]> {
  const { effectId, after = { claimNumber: 0n, seq: 0 }, limit = 1_000 } = request;
  assertWhole('limit', limit, 1, LIMIT_MAX);
  const { rows } = await sql<{
    claim_number: bigint | string;
    attempt: number;
    seq: number;
    bytes: Buffer;
    logged_at: Date;
  }>`
    select claim_number, attempt, seq, bytes, logged_at
      from ${table('effect_log')}
     where effect_id = ${effectId} and (claim_number, seq) > (${after.claimNumber}, ${after.seq}::int)
     order by claim_number, seq
     limit ${limit}::int`.execute(db);
  return rows.map((row) => ({
    claimNumber: BigInt(row.claim_number),
    attempt: row.attempt,
    seq: row.seq,
    bytes: row.bytes,
    loggedAt: row.logged_at,
  }));
}
