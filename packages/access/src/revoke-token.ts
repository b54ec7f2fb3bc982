import { dateOf, type DB, instant } from '@sluice/db';
import { sql, type Kysely } from 'kysely';

/**
 * Makes a token open nothing from its next request on. Doing it again changes nothing: the first instant stays. Returns
 * whose it was; undefined if there is no such token.
 */
export async function revokeToken(
  db: Kysely<DB>,
  tokenId: bigint,
): Promise<{ name: string; revokedAt: Date } | undefined> {
  const row = await db
    .updateTable('access_token')
    .set({ revoked_at: sql<Date>`coalesce(revoked_at, now())` })
    .where('token_id', '=', tokenId)
    .returning(['name', instant(sql`revoked_at`).as('revoked_at')])
    .executeTakeFirst();
  return row === undefined ? undefined : { name: row.name, revokedAt: dateOf(row.revoked_at) };
}
