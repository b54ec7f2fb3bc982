import type { DB } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { Kysely, PostgresDialect } from 'kysely';
import pg from 'pg';
import { afterEach, describe, expect, test } from 'vitest';
import { fairClaim } from './dispatcher.ts';
import { enqueueEffects } from './repo.ts';

const database = useTestDatabase();
const effects = [
  { repoId: 'a', payload: '{"n":1}' },
  { repoId: 'a', payload: '{"n":2}' },
];

test.each([undefined, null, {}, 'postgres://', new pg.Pool()])(
  'what is no Kysely instance is refused by name (%s)',
  async (db) => {
    await expect(enqueueEffects(db as never, effects)).rejects.toMatchObject({
      code: 'invalid_argument',
      message: expect.stringMatching(/^db: expected a Kysely instance or transaction, got \w+\. Pass/),
    });
  },
);

describe('a driver that is not pg', () => {
  const pools: pg.Pool[] = [];
  afterEach(() => Promise.all(pools.splice(0).map((pool) => pool.end())));

  /** As other drivers do it: what is no plain value is written in a form of their own. */
  function driver(form: (text: string, values: unknown[]) => [string, unknown[]]): Kysely<DB> {
    const pool = new pg.Pool({ connectionString: database.url, max: 1 });
    pools.push(pool);
    pool.on('connect', (client) => {
      const query = client.query.bind(client) as (...args: unknown[]) => unknown;
      const other = (text: string, values: unknown[]): unknown => query(...form(text, values));
      client.query = other as unknown as typeof client.query;
    });
    return new Kysely<DB>({ dialect: new PostgresDialect({ pool }) });
  }

  const isPlain = (value: unknown) => typeof value !== 'object' || value === null;
  const asJson = (text: string, values: unknown[]): [string, unknown[]] => [
    text,
    values.map((value) => (isPlain(value) ? value : JSON.stringify(value, (_, one: unknown) => String(one)))),
  ];
  const asScalars = (text: string, values: unknown[]): [string, unknown[]] => [
    text.replaceAll(/\$(\d+)::text\[\]/g, '$$$1::bytea::text[]'),
    values.map((value) => (isPlain(value) ? value : '1')),
  ];

  test.each([
    ['JSON', asJson, /malformed array literal/],
    ['scalars', asScalars, /cannot cast type bytea to text\[\]/],
  ])('and sends arrays as %s is named as the fault', async (_, form, reason) => {
    const refused = enqueueEffects(driver(form), effects);
    await expect(refused).rejects.toMatchObject({
      code: 'driver_unsupported',
      message: expect.stringMatching(/^db: expected a Kysely instance over the pg driver, got/),
      cause: expect.objectContaining({ severity: 'ERROR' }),
    });
    await expect(refused).rejects.toThrow(reason);
    const turns = [{ repoId: 'a', want: 1 }];
    const claim = fairClaim(driver(form), { turns, claimedBy: 'w', defaultCap: 1 });
    await expect(claim).rejects.toMatchObject({ code: 'driver_unsupported' });
  });
});

test('any other error comes as it is', async () => {
  const refused = database.db.transaction().execute(async (trx) => {
    await trx
      .selectFrom('no_such_table' as 'repo')
      .selectAll()
      .execute()
      .catch(() => undefined);
    await enqueueEffects(trx, effects);
  });
  await expect(refused).rejects.toMatchObject({ code: '25P02' });
});
