import { createPool, sluice, type DB } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { Kysely, PostgresDialect } from 'kysely';
import { expect, test } from 'vitest';
import { createToken, findToken, listTokens, repoQuotaFault, revokeToken } from '../src/index.ts';

const database = useTestDatabase();

type Parse = (text: string) => unknown;
const [INT8, TEXTS, TIMESTAMPTZ] = [20, 1009, 1184] as const;

/** A program's own instance, whose pool parses values of these types as it likes. */
function callersKysely(parsers: Record<number, Parse>): Kysely<DB> {
  const pool = createPool({ connectionString: database.url, applicationName: 'caller' });
  const options = pool.options as unknown as {
    types: { getTypeParser: (oid: number, format?: string) => Parse };
  };
  const { getTypeParser } = options.types;
  options.types = { getTypeParser: (type, format) => parsers[type] ?? getTypeParser(type, format) };
  return sluice(new Kysely<DB>({ dialect: new PostgresDialect({ pool }) }));
}

test.each([
  ['bigint as number and times as text', { [INT8]: Number, [TIMESTAMPTZ]: String }],
  [
    'bigint and arrays as text, times as objects of a library',
    { [INT8]: String, [TEXTS]: String, [TIMESTAMPTZ]: (iso: string) => ({ iso }) },
  ],
])("a caller's own pool, with %s, answers as ours does", async (_, parsers) => {
  const { db: ours } = database;
  await using db = callersKysely(parsers);
  const token = { name: 'alice', repoPattern: 'acme/*', scopes: ['write', 'read'] as const };
  // The order of twelve tokens is not that of their ids as text.
  for (let n = 0; n < 12; n += 1) await createToken(ours, { ...token, expiresInDays: null });
  const created = await createToken(db, { ...token, expiresInDays: 2 });
  const found = await findToken(db, created.token);
  expect(found).toEqual(await findToken(ours, created.token));
  expect(found).toMatchObject({ tokenId: created.tokenId, scopes: ['read', 'write'], standing: 'valid' });
  const revoked = await revokeToken(db, created.tokenId);
  expect(revoked).toEqual(await revokeToken(ours, created.tokenId));
  const listed = await listTokens(db, { limit: 99 });
  expect(listed).toEqual(await listTokens(ours, { limit: 99 }));
  expect(listed[0]).toMatchObject({
    tokenId: created.tokenId,
    expiresAt: created.expiresAt,
    revokedAt: revoked!.revokedAt,
    createdAt: expect.any(Date),
  });
  const ids = listed.map(({ tokenId }) => tokenId);
  expect(ids).toEqual(ids.toSorted((a, b) => (a < b ? 1 : -1)));
  const full = { account: null, accountMax: null, serverMax: 0 };
  expect(await repoQuotaFault(db, full)).toBe(await repoQuotaFault(ours, full));
});
