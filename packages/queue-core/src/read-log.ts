import { dateOf, type DB, instant, table } from '@sluice/db';
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

/**
 * A page of an effect's output, run after run, each in its order; `after` is the last chunk of the page before. A chunk
 * counts once, although it is stored twice where a call of `appendLog` was repeated while the first one went on.
 */
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
    claim_number: string;
    attempt: number;
    seq: number;
    hex: string;
    logged_at: string;
  }>`
    select distinct on (l.claim_number, l.seq) claim_number::text, attempt, seq, encode(bytes, 'hex') as hex, ${instant(sql`logged_at`)} as logged_at
      from ${table('effect_log')} l
     where effect_id = ${effectId} and (claim_number, seq) > (${after.claimNumber}, ${after.seq}::int)
     order by l.claim_number, l.seq, l.logged_at
     limit ${limit}::int`.execute(db);
  return rows.map((row) => ({
    claimNumber: BigInt(row.claim_number),
    attempt: row.attempt,
    seq: row.seq,
    bytes: Buffer.from(row.hex, 'hex'),
    loggedAt: dateOf(row.logged_at),
  }));
}
