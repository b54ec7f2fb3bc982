import { sql, type RawBuilder } from 'kysely';

/** What became of a token; only a valid one opens anything. */
export type Standing = 'valid' | 'expired' | 'revoked';

/** The standing of a row of `access_token` now, by the database clock. */
export function standing(): RawBuilder<Standing> {
  return sql<Standing>`case when revoked_at is not null then 'revoked' when expires_at <= now() then 'expired' else 'valid' end`;
}
