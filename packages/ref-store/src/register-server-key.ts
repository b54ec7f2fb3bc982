import { dateOf, type DB, instant, SluiceError } from '@sluice/db';
import { sql, type Kysely } from 'kysely';
import type { ServerKey } from './server-key.ts';

/** The public part of a key that op records are, or were, signed with. */
export interface RegisteredKey {
  /** `SHA256:…`, as `ssh-keygen -l` prints it. */
  fingerprint: string;
  /** `ssh-ed25519 AAAA…` */
  publicKey: string;
  registeredAt: Date;
  /** Since when it signs no more; null: it may sign. */
  retiredAt: Date | null;
}

const retiredAt = instant(sql`retired_at`)
  .$castTo<string | null>()
  .as('retired_at');

/**
 * Makes a key known as one that signs op records, so that they can be verified wherever the database is. Throws
 * `server_key_unusable` if it was retired: its records would count as forged.
 */
export async function registerServerKey(
  db: Kysely<DB>,
  { fingerprint, publicKey }: Pick<ServerKey, 'fingerprint' | 'publicKey'>,
): Promise<void> {
  await db
    .insertInto('server_key')
    .values({ fingerprint, public_key: publicKey })
    // Of either column: two pushers that start at once may meet at the key before they meet at its fingerprint.
    .onConflict((conflict) => conflict.doNothing())
    .execute();
  const row = await db
    .selectFrom('server_key')
    .select(retiredAt)
    .where('fingerprint', '=', fingerprint)
    .executeTakeFirstOrThrow();
  if (row.retired_at === null) return;
  throw new SluiceError(
    'server_key_unusable',
    `Server key: expected one in use, got ${fingerprint}, which was retired at ${dateOf(row.retired_at).toISOString()}.`,
    { next: 'Remove its file, so that a new key is made.' },
  );
}

/** All keys that ever signed, the oldest first. */
export async function readServerKeys(db: Kysely<DB>): Promise<RegisteredKey[]> {
  const rows = await db
    .selectFrom('server_key')
    .select(['fingerprint', 'public_key', instant(sql`registered_at`).as('registered_at'), retiredAt])
    .orderBy('server_key.registered_at')
    .execute();
  return rows.map((row) => ({
    fingerprint: row.fingerprint,
    publicKey: row.public_key,
    registeredAt: dateOf(row.registered_at),
    retiredAt: dateOf(row.retired_at),
  }));
}

/**
 * Ends a key's use: what it signs from now on does not verify. Returns false if no such key is in use. Stop the
 * pushers that have it first.
 */
export async function retireServerKey(db: Kysely<DB>, fingerprint: string): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('server_key')
    .set({ retired_at: sql<Date>`now()` })
    .where('fingerprint', '=', fingerprint)
    .where('retired_at', 'is', null)
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}
