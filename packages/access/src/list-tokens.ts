import { dateOf, type DB, instant } from '@sluice/db';
import { sql, type Kysely } from 'kysely';
import { scopesOf, scopesText, tokenIdText, type FoundToken } from './find-token.ts';
import { standing } from './standing.ts';

export interface ListedToken extends FoundToken {
  createdAt: Date;
  expiresAt: Date | null;
  revokedAt: Date | null;
}

/** The newest tokens first; revoked and expired ones as well, since they say who could do what until when. */
export async function listTokens(db: Kysely<DB>, { limit }: { limit: number }): Promise<ListedToken[]> {
  const rows = await db
    .selectFrom('access_token')
    .select(['name', 'repo_pattern', 'repos_max', standing().as('standing')])
    .select([tokenIdText, scopesText])
    .select([
      instant(sql`created_at`).as('created_at'),
      instant(sql`expires_at`)
        .$castTo<string | null>()
        .as('expires_at'),
      instant(sql`revoked_at`)
        .$castTo<string | null>()
        .as('revoked_at'),
    ])
    // The column: `token_id` alone is the text.
    .orderBy('access_token.token_id', 'desc')
    .limit(limit)
    .execute();
  return rows.map((row) => ({
    tokenId: BigInt(row.token_id),
    name: row.name,
    repoPattern: row.repo_pattern,
    scopes: scopesOf(row.scopes),
    reposMax: row.repos_max,
    standing: row.standing,
    createdAt: dateOf(row.created_at),
    expiresAt: dateOf(row.expires_at),
    revokedAt: dateOf(row.revoked_at),
  }));
}
