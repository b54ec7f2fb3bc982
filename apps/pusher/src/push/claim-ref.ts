import { inTransaction, type DB } from '@sluice/db';
import { decodeWorkOrder } from '@sluice/effect-spec';
import { openClaim } from '@sluice/queue-core/repo';
import type { Kysely } from 'kysely';

/** The result ref that an open claim may write; null if there is no such claim of this repository. */
export async function readClaimRef(
  db: Kysely<DB>,
  { repoId, claimNumber }: { repoId: string; claimNumber: bigint },
): Promise<string | null> {
  const claim = await inTransaction(db, (trx) => openClaim(trx, { repoId, claimNumber }));
  if (claim === undefined) return null;
  const decoded = decodeWorkOrder(claim.payload);
  return 'order' in decoded ? decoded.order.resultRef : null;
}
