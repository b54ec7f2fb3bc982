import { table, type DB } from '@sluice/db';
import { sql, type Kysely, type RawBuilder, type Transaction } from 'kysely';
import { assertRepoId, invalid } from './assert-argument.ts';
import { toClaimedEffect, type ClaimedEffect, type ClaimedRow } from './claim.ts';

interface ClaimRequest {
  repoId: string;
  claimNumber: bigint;
}

/**
 * An open claim of the repo by its number, locked until the transaction ends, so that neither a requeue nor another
 * completion comes in between; `undefined` if it is not open. What the caller then writes and its completion are one.
 */
export async function openClaim(
  trx: Transaction<DB>,
  request: ClaimRequest,
): Promise<ClaimedEffect | undefined> {
  return await readClaim(trx, request, sql`for update of c`);
}

/** The same without a lock: it may be gone a moment later. A caller who stands still is in nobody's way. */
export async function findClaim(db: Kysely<DB>, request: ClaimRequest): Promise<ClaimedEffect | undefined> {
  return await readClaim(db, request, sql``);
}

async function readClaim(
  db: Kysely<DB>,
  { repoId, claimNumber }: ClaimRequest,
  lock: RawBuilder<unknown>,
): Promise<ClaimedEffect | undefined> {
  assertRepoId('repoId', repoId);
  if (typeof claimNumber !== 'bigint' || claimNumber < 0n || claimNumber >= 2n ** 63n) {
    throw invalid(
      'claimNumber',
      'a bigint',
      claimNumber,
      'Pass the number that the claim was returned with.',
    );
  }
  const { rows } = await sql<ClaimedRow>`
    select c.effect_id::text, c.repo_id, c.claim_number::text, c.attempt, c.claimant, q.name, q.payload,
           q.max_attempts, q.push_id
      from ${table('effect_claim')} c join ${table('effect_queue')} q on q.effect_id = c.effect_id
     where c.repo_id = ${repoId} and c.claim_number = ${claimNumber}
       ${lock}`.execute(db);
  return rows.map(toClaimedEffect)[0];
}
