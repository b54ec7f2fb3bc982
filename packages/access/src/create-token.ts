import { dateOf, type DB, instant, SluiceError } from '@sluice/db';
import { sql, type Kysely } from 'kysely';
import { tokenIdText } from './find-token.ts';
import { isRepoPattern } from './repo-pattern.ts';
import { isScope, SCOPES, type Scope } from './scope.ts';
import { hashToken, newTokenText } from './token-text.ts';

export interface NewToken {
  /** Whose it is: one word, up to 100 letters, digits and `._@+-`. Recorded with every push that is made with it. */
  name: string;
  /** A repository, a prefix with `/*`, or `*`. */
  repoPattern: string;
  scopes: readonly Scope[];
  /** From 1 to 36,500; null: it does not expire. */
  expiresInDays: number | null;
  /**
   * Most repositories that first pushes of this owner, with whatever token, may have made for this one to make another.
   * 0: it makes none; null: no limit. By default {@link REPOS_MAX}.
   */
  reposMax?: number | null;
}

export interface CreatedToken {
  tokenId: bigint;
  /** The token itself. It is stored nowhere: whoever loses it needs a new one. */
  token: string;
  expiresAt: Date | null;
}

const NAME = /^[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}$/;
const DAYS_MAX = 36_500;
/** Enough for a person, and far from filling a server. */
export const REPOS_MAX = 100;
const REPOS_MAX_MAX = 1_000_000;

/** Makes an access token. Throws `invalid_argument` for a name, pattern, scope, life or limit that is not acceptable. */
export async function createToken(db: Kysely<DB>, token: NewToken): Promise<CreatedToken> {
  assertAcceptable(token);
  const { name, repoPattern, scopes, expiresInDays, reposMax = REPOS_MAX } = token;
  const text = newTokenText();
  const row = await db
    .insertInto('access_token')
    .values({
      token_hash: hashToken(text),
      name,
      repo_pattern: repoPattern,
      scopes: SCOPES.filter((scope) => scopes.includes(scope)),
      repos_max: reposMax,
      expires_at:
        expiresInDays === null ? null : sql<Date>`now() + make_interval(days => ${expiresInDays}::int)`,
    })
    .returning([
      tokenIdText,
      instant(sql`expires_at`)
        .$castTo<string | null>()
        .as('expires_at'),
    ])
    .executeTakeFirstOrThrow();
  return { tokenId: BigInt(row.token_id), token: text, expiresAt: dateOf(row.expires_at) };
}

function assertAcceptable({ name, repoPattern, scopes, expiresInDays, reposMax = null }: NewToken): void {
  if (!NAME.test(name)) {
    refuse('name', 'one word of at most 100 letters, digits and ._@+- such as alice', name);
  }
  if (!isRepoPattern(repoPattern)) {
    refuse('repo pattern', 'a repository such as acme/api, a prefix such as acme/*, or *', repoPattern);
  }
  if (scopes.length === 0) refuse('scopes', `at least one of ${SCOPES.join(', ')}`, '');
  const unknown = scopes.find((scope) => !isScope(scope));
  if (unknown !== undefined) refuse('scopes', `some of ${SCOPES.join(', ')}`, unknown);
  if (expiresInDays !== null && !isWhole(expiresInDays, 1, DAYS_MAX)) {
    refuse('expires in', `whole days from 1 to ${DAYS_MAX}, or never`, String(expiresInDays));
  }
  if (reposMax !== null && !isWhole(reposMax, 0, REPOS_MAX_MAX)) {
    refuse('max repos', `a whole number from 0 to ${REPOS_MAX_MAX}, or no limit`, String(reposMax));
  }
}

function isWhole(value: number, min: number, max: number): boolean {
  return Number.isInteger(value) && value >= min && value <= max;
}

function refuse(field: string, expected: string, got: string): never {
  throw new SluiceError(
    'invalid_argument',
    `${field}: expected ${expected}, got ${JSON.stringify(got.slice(0, 80))}.`,
  );
}
