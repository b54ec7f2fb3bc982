import { table, type DB } from '@sluice/db';
import { sql, type Kysely } from 'kysely';
import { assertList, assertWhole, invalid } from './assert-argument.ts';
import { checkClaim } from './check-claim.ts';
import type { Claim } from './claim.ts';

/** A piece of an effect's output. */
export interface LogChunk {
  /** Position within the run, from 1. */
  seq: number;
  bytes: Uint8Array;
}

const CHUNKS_MAX = 1_000;
const CHUNK_BYTES_MAX = 1_048_576;
const SEQ_MAX = 2 ** 31 - 1;

/**
 * Stores output of an attempt while its claim is open; `stale`: it no longer is, and nothing was stored. A chunk whose
 * `seq` is stored already is passed over, so a call whose answer was lost can be repeated; `readLog` shows it once also
 * where the first call had not ended by then.
 */
export async function appendLog(
  db: Kysely<DB>,
  claim: Claim,
  chunks: readonly LogChunk[],
): Promise<'stored' | 'stale'> {
  checkClaim(claim);
  assertList('chunks', chunks, CHUNKS_MAX);
  for (const [index, chunk] of chunks.entries()) {
    assertWhole(`chunks[${index}].seq`, chunk.seq, 1, SEQ_MAX);
    if (chunk.bytes.length > CHUNK_BYTES_MAX) {
      const got = `${chunk.bytes.length} bytes`;
      throw invalid(`chunks[${index}].bytes`, `at most ${CHUNK_BYTES_MAX} bytes`, got, 'Split it.');
    }
  }
  const { rows } = await sql`
    with open as materialized (
      select effect_id, claim_number, attempt, claimed_at
        from ${table('effect_claim')}
       where claim_number = ${claim.claimNumber} and effect_id = ${claim.effectId} and repo_id = ${claim.repoId}
         and attempt = ${claim.attempt} and claimant = ${claim.claimant}
    ), stored as (
      insert into ${table('effect_log')} (effect_id, claim_number, seq, attempt, bytes, logged_at)
      select open.effect_id, open.claim_number, chunk.seq, open.attempt, chunk.bytes, statement_timestamp()
        from open, unnest(${chunks.map((chunk) => chunk.seq)}::int[],
                          ${chunks.map((chunk) => Buffer.from(chunk.bytes))}::bytea[]) as chunk (seq, bytes)
       where not exists (
         -- The start of the claim limits the search to the partitions of the days since, with a day to spare for a clock
         -- that was set back meanwhile.
         select from ${table('effect_log')} l
          where l.effect_id = open.effect_id and l.claim_number = open.claim_number and l.seq = chunk.seq
            and l.logged_at >= least(open.claimed_at, statement_timestamp()) - interval '1 day')
    )
    select from open`.execute(db);
  return rows.length > 0 ? 'stored' : 'stale';
}
