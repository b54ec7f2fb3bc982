import { table, type DB } from '@sluice/db';
import { sql, type Transaction } from 'kysely';
import { assertRepoId, invalid } from './assert-argument.ts';
import { toClaimedEffect, type ClaimedEffect, type ClaimedRow } from './claim.ts';

/**
 * An open claim of the repo by its number, locked until the transaction ends, so that neither a requeue nor another
 * completion comes in between; `undefined` if it is not open. What the caller then writes and its completion are one.
 */
export async function openClaim(
  trx: Transaction<DB>,
  request: { repoId: string; claimNumber: bigint },
): Promise<ClaimedEffect | undefined> {
  assertRepoId('repoId', request.repoId);
  if (
    typeof request.claimNumber !== 'bigint' ||
    request.claimNumber < 0n ||
    request.claimNumber >= 2n ** 63n
  ) {
    throw invalid(
      'claimNumber',
      'a bigint',
      request.claimNumber,
      'Pass the number that the claim was returned with.',
    );
  }
  const { rows } = await sql<ClaimedRow>`
    select c.effect_id::text, c.repo_id, c.claim_number::text, c.attempt, c.claimant, q.name, q.payload,
           q.max_attempts, q.push_id
      from ${table('effect_claim')} c join ${table('effect_queue')} q on q.effect_id = c.effect_id
     where c.repo_id = ${request.repoId} and c.claim_number = ${request.claimNumber}
       for update of c`.execute(trx);
  return rows.map(toClaimedEffect)[0];
}
