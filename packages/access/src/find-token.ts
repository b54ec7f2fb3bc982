import type { DB } from '@sluice/db';
import { sql, type Kysely } from 'kysely';
import type { Scope } from './scope.ts';
import { standing, type Standing } from './standing.ts';
import { hashToken, isTokenText } from './token-text.ts';

export const tokenIdText = sql<string>`token_id::text`.as('token_id');
export const scopesText = sql<string>`array_to_string(scopes, ',')`.as('scopes');

/** The schema admits no others. */
export function scopesOf(text: string): Scope[] {
  return text.split(',') as Scope[];
}

/** A token that exists; whether it opens anything is another question. */
export interface FoundToken {
  tokenId: bigint;
  name: string;
  repoPattern: string;
  scopes: Scope[];
  /** Most repositories that its owner may have made for it to make another; null: no limit. */
  reposMax: number | null;
  standing: Standing;
}

/**
 * Looks up a token that somebody showed; undefined if there is none like it. One statement on a unique index, cheap
 * enough for every request, so that a revocation holds from the next one on.
 *
 * How long it takes says nothing about a token: what is compared is its hash, and whoever learned the beginning of a
 * hash would still have to find a text for it.
 */
export async function findToken(db: Kysely<DB>, text: string): Promise<FoundToken | undefined> {
  if (!isTokenText(text)) return undefined;
  const row = await db
    .selectFrom('access_token')
    .select(['name', 'repo_pattern', 'repos_max', standing().as('standing')])
    .select([tokenIdText, scopesText])
    .where('token_hash', '=', hashToken(text))
    .executeTakeFirst();
  if (row === undefined) return undefined;
  return {
    tokenId: BigInt(row.token_id),
    name: row.name,
    repoPattern: row.repo_pattern,
    scopes: scopesOf(row.scopes),
    reposMax: row.repos_max,
    standing: row.standing,
  };
}
