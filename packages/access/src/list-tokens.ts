import type { DB } from '@sluice/db';
import type { Kysely } from 'kysely';
import type { FoundToken } from './find-token.ts';
import type { Scope } from './scope.ts';
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
    .select([
      'token_id',
      'name',
      'repo_pattern',
      'scopes',
      'repos_max',
      'created_at',
      'expires_at',
      'revoked_at',
    ])
    .select(standing().as('standing'))
    .orderBy('token_id', 'desc')
    .limit(limit)
    .execute();
  return rows.map((row) => ({
    tokenId: row.token_id,
    name: row.name,
    repoPattern: row.repo_pattern,
    scopes: row.scopes as Scope[],
    reposMax: row.repos_max,
    standing: row.standing,
    createdAt: row.created_at,
    expiresAt: row.expires_at,
    revokedAt: row.revoked_at,
  }));
}
