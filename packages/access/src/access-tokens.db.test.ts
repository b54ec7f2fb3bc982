import { createHash } from 'node:crypto';
import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { createToken, type NewToken } from './create-token.ts';
import { findToken } from './find-token.ts';
import { listTokens } from './list-tokens.ts';
import { revokeToken } from './revoke-token.ts';

const database = useTestDatabase();
const ALICE: NewToken = { name: 'alice', repoPattern: 'acme/*', scopes: ['write'], expiresInDays: 90 };

test('a token is found by its text, and its text is not in the database', async () => {
  const { db } = database;
  const { token, tokenId } = await createToken(db, ALICE);
  expect(token).toMatch(/^sluice_[A-Za-z0-9_-]{43}$/);
  expect(await findToken(db, token)).toEqual({
    tokenId,
    name: 'alice',
    repoPattern: 'acme/*',
    scopes: ['write'],
    reposMax: 100,
    standing: 'valid',
  });
  const row = await db.selectFrom('access_token').selectAll().where('token_id', '=', tokenId).execute();
  expect(
    JSON.stringify(row, (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value)),
  ).not.toContain(token.slice(-20));
});

test('what is no token is not looked up, and one that was never made is not found', async () => {
  const { db } = database;
  const { token } = await createToken(db, ALICE);
  const wrong = token.slice(0, -1) + (token.endsWith('A') ? 'B' : 'A');
  for (const text of [wrong, '', 'secret', `${token}x`, token.toUpperCase(), ` ${token}`, '\0']) {
    expect(await findToken(db, text)).toBeUndefined();
  }
});

test('what the database is asked says nothing about how near a guess was: one statement, and a hash in it', async () => {
  const asked: string[] = [];
  const db = database.db.withPlugin({
    transformQuery: ({ node }) => {
      asked.push(JSON.stringify(node));
      return node;
    },
    transformResult: ({ result }) => Promise.resolve(result),
  });
  const { token } = await createToken(database.db, ALICE);
  const swap = (at: number): string =>
    token.slice(0, at) + (token[at] === 'A' ? 'B' : 'A') + token.slice(at + 1);
  const guesses = [token, swap(token.length - 1), swap('sluice_'.length)];
  for (const guess of guesses) await findToken(db, guess);
  expect(asked).toHaveLength(guesses.length);
  const shapes = asked.map((query, index) => {
    expect(query).not.toContain(guesses[index]!.slice(-20));
    const hash = JSON.stringify(createHash('sha256').update(guesses[index]!).digest());
    expect(query).toContain(hash);
    return query.replace(hash, 'HASH');
  });
  expect(new Set(shapes).size).toBe(1);
});

test('the look-up is one probe of an index, however many tokens there are', async () => {
  const { db } = database;
  await sql`insert into ${sql.table('sluice.access_token')} (token_hash, name, repo_pattern, scopes)
    select sha256(i::text::bytea), 'many', '*', '{read}' from generate_series(1, 5000) i`.execute(db);
  await sql`analyze ${sql.table('sluice.access_token')}`.execute(db);
  const query = db.selectFrom('access_token').selectAll().where('token_hash', '=', Buffer.alloc(32));
  const plan = await query.explain('text');
  expect(JSON.stringify(plan)).toContain('Index Scan using token_hash_is_unique');
  await db.deleteFrom('access_token').where('name', '=', 'many').execute();
});

test('expired and revoked tokens are found as such; revoking again keeps the first instant', async () => {
  const { db } = database;
  const old = await createToken(db, ALICE);
  await db
    .updateTable('access_token')
    .set({ expires_at: sql<Date>`now() - interval '1 second'` })
    .where('token_id', '=', old.tokenId)
    .execute();
  expect(await findToken(db, old.token)).toMatchObject({ standing: 'expired' });

  const lost = await createToken(db, { ...ALICE, expiresInDays: null });
  const first = await revokeToken(db, lost.tokenId);
  expect(first).toEqual({ name: 'alice', revokedAt: expect.any(Date) });
  expect(await revokeToken(db, lost.tokenId)).toEqual(first);
  expect(await findToken(db, lost.token)).toMatchObject({ standing: 'revoked' });
  expect(await revokeToken(db, 999_999_999n)).toBeUndefined();

  expect(await listTokens(db, { limit: 2 })).toMatchObject([
    { tokenId: lost.tokenId, standing: 'revoked', expiresAt: null, revokedAt: first?.revokedAt },
    { tokenId: old.tokenId, standing: 'expired', revokedAt: null },
  ]);
});

test('scopes are stored once each and in one order; days are days', async () => {
  const { db } = database;
  const { token, expiresAt } = await createToken(db, {
    ...ALICE,
    scopes: ['worker', 'read', 'worker'],
    expiresInDays: 1,
  });
  expect((await findToken(db, token))?.scopes).toEqual(['read', 'worker']);
  const { rows } = await sql<{ hours: number }>`
    select extract(epoch from ${expiresAt}::timestamptz - now())::float8 / 3600 as hours`.execute(db);
  expect(Math.round(rows[0]!.hours)).toBe(24);
});

test.each<[Partial<NewToken>, string]>([
  [{ name: '' }, 'name: expected one word'],
  [{ name: 'two words' }, 'name: expected one word'],
  [{ name: 'a\u001b[2J' }, 'name: expected one word'],
  [{ name: 'a:b' }, 'name: expected one word'],
  [{ name: 'x'.repeat(101) }, 'name: expected one word'],
  [{ repoPattern: 'acme*' }, 'repo pattern: expected a repository'],
  [{ repoPattern: '' }, 'repo pattern: expected a repository'],
  [{ scopes: [] }, 'scopes: expected at least one of'],
  [{ scopes: ['read', 'root' as 'read'] }, 'got "root"'],
  [{ expiresInDays: 0 }, 'expires in: expected whole days'],
  [{ expiresInDays: 1.5 }, 'expires in: expected whole days'],
  [{ expiresInDays: 36_501 }, 'expires in: expected whole days'],
  [{ reposMax: -1 }, 'max repos: expected a whole number from 0'],
  [{ reposMax: 1.5 }, 'max repos: expected a whole number from 0'],
])('%j is refused', async (part, message) => {
  await expect(createToken(database.db, { ...ALICE, ...part })).rejects.toThrow(message);
});

test.each([
  ['name', { name: 'a b' }, 'token_name_is_one_word'],
  ['pattern', { repo_pattern: 'a*' }, 'repo_pattern_is_a_repo_or_ends_with_a_star'],
  ['scope', { scopes: ['root'] }, 'scopes_are_known'],
  ['scopes', { scopes: [] as string[] }, 'scopes_are_not_empty'],
  ['limit', { repos_max: -1 }, 'repos_max_is_not_negative'],
  ['hash', { token_hash: Buffer.alloc(31) }, 'token_hash_is_of_sha256'],
])('the schema refuses a bad %s by itself', async (_, part, constraint) => {
  const row = { token_hash: Buffer.alloc(32), name: 'a', repo_pattern: '*', scopes: ['read'], ...part };
  await expect(database.db.insertInto('access_token').values(row).execute()).rejects.toThrow(constraint);
});
