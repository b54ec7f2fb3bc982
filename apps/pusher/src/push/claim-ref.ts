import type { DB } from '@sluice/db';
import { decodeWorkOrder } from '@sluice/effect-spec';
import { findClaim } from '@sluice/queue-core/repo';
import type { Kysely } from 'kysely';

/**
 * The result ref that an open claim may write; null if there is no such claim of this repository. Only a look: the
 * transaction that stores the result asks again, with the claim locked.
 */
export async function readClaimRef(
  db: Kysely<DB>,
  request: { repoId: string; claimNumber: bigint },
): Promise<string | null> {
  const claim = await findClaim(db, request);
  if (claim === undefined) return null;
  const decoded = decodeWorkOrder(claim.payload);
  return 'order' in decoded ? decoded.order.resultRef : null;
}
