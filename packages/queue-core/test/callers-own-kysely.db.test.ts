import { SCHEMA, table, type DB } from '@sluice/db';
import { startPgBouncer, useTestDatabase } from '@sluice/testkit';
import {
  CamelCasePlugin,
  DeduplicateJoinsPlugin,
  HandleEmptyInListsPlugin,
  Kysely,
  ParseJSONResultsPlugin,
  PostgresDialect,
  replaceWithNoncontingentExpression,
  sql,
  type KyselyPlugin,
} from 'kysely';
import pg from 'pg';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import * as dispatcher from '../src/dispatcher.ts';
import * as repo from '../src/repo.ts';
import { everyOperation } from './every-operation.ts';
import { emptyQueue, fillQueue } from './fill-queue.ts';

const database = useTestDatabase();
let expected: Record<string, unknown>;

/** Ids of which a JS number would lose the last digit. */
const IDS_FROM = 9_007_199_254_740_993n;

async function start(): Promise<void> {
  const { db } = database;
  await emptyQueue(db);
  await sql`truncate ${table('op_record')} cascade`.execute(db);
  await db
    .insertInto('repo')
    .values([
      { repo_id: 'limited', max_queued: 1 },
      { repo_id: 'paused', paused_at: new Date() },
    ])
    .execute();
}

beforeAll(async () => {
  const { db } = database;
  await sql`create schema elsewhere`.execute(db);
  for (const name of ['effect_id_seq', 'effect_claim_number_seq'])
    await sql`select setval(${`${SCHEMA}.${name}`}::text::regclass, ${IDS_FROM}::bigint)`.execute(db);
  await start();
  // The partitions are there from then on.
  await everyOperation(db);
  await start();
  expected = await everyOperation(db);
});
beforeEach(start);

/** A program's own instance: pg's pool, Kysely's dialect, and whatever else it chose. */
function callersKysely(
  options: {
    url?: string;
    settings?: Record<string, string>;
    parsers?: Record<number, (value: string) => unknown>;
    plugins?: KyselyPlugin[];
  } = {},
): Kysely<DB> {
  const url = new URL(options.url ?? database.url);
  const settings = Object.entries(options.settings ?? {}).map(([name, value]) => `-c ${name}=${value}`);
  if (settings.length > 0) url.searchParams.set('options', settings.join(' '));
  const pool = new pg.Pool({
    connectionString: url.href,
    max: 4,
    types: {
      getTypeParser: ((oid: number, format?: 'text' | 'binary') =>
        options.parsers?.[oid] ?? pg.types.getTypeParser(oid, format)) as typeof pg.types.getTypeParser,
    },
  });
  return new Kysely<DB>({
    dialect: new PostgresDialect({ pool }),
    ...(options.plugins === undefined ? {} : { plugins: options.plugins }),
  });
}

const [INT8, TIMESTAMPTZ, JSON_TYPE, JSONB, BYTEA, TEXTS] = [20, 1184, 114, 3802, 17, 1009];
const asObject = (iso: string) => ({ iso });

const CALLERS: Record<string, () => Kysely<DB>> = {
  'with nothing special': () => callersKysely(),
  'with plugins that rename columns and parse texts, in another schema': () =>
    callersKysely({
      plugins: [
        new CamelCasePlugin(),
        new ParseJSONResultsPlugin(),
        new DeduplicateJoinsPlugin(),
        new HandleEmptyInListsPlugin({ strategy: replaceWithNoncontingentExpression }),
      ],
    }).withSchema('elsewhere'),
  'with bigint as number and times as text': () =>
    callersKysely({ parsers: { [INT8!]: Number, [TIMESTAMPTZ!]: String } }),
  'with bigint as text, times as objects of a library, and nothing else parsed': () =>
    callersKysely({
      parsers: {
        [INT8!]: String,
        [TIMESTAMPTZ!]: asObject,
        [JSON_TYPE!]: String,
        [JSONB!]: String,
        [BYTEA!]: String,
        [TEXTS!]: String,
      },
    }),
  'with another search path, and values written in other ways': () =>
    callersKysely({
      settings: {
        search_path: 'elsewhere',
        datestyle: 'SQL,DMY',
        timezone: 'Asia/Kathmandu',
        bytea_output: 'escape',
        intervalstyle: 'sql_standard',
        extra_float_digits: '0',
      },
    }),
  'with SERIALIZABLE as the default': () =>
    callersKysely({ settings: { default_transaction_isolation: 'serializable' } }),
};

test('every operation of both doors takes part', () => {
  // Those that ask no database.
  const pure = ['cleanReason', 'effectId', 'hearInProcess', 'isRepoId'];
  const isOperation = ([name, value]: [string, unknown]) =>
    typeof value === 'function' && !pure.includes(name);
  const operations = Object.entries({ ...repo, ...dispatcher })
    .filter(isOperation)
    .map(([name]) => name);
  expect(Object.keys(expected).toSorted()).toEqual([...operations, 'and'].toSorted());
  expect(expected['and']).toMatchObject({ payload: '{"snake_case":[1,"2"]}', output: [0, 92, 255] });
  for (const [about, isSo] of Object.entries(expected['and'] as object))
    if (typeof isSo === 'boolean') expect(isSo, about).toBe(true);
});

describe.each(Object.entries(CALLERS))("a caller's own Kysely, %s", (_, open) => {
  test('answers as ours does', async () => {
    await using db = open();
    expect(await everyOperation(db)).toEqual(expected);
  });

  test('and so does its transaction, which can be undone to a savepoint', async () => {
    await using db = open();
    const { vacuumHotTable: _never, ...possible } = expected;
    const trx = await db.startTransaction().setIsolationLevel('read committed').execute();
    try {
      const later = await trx.savepoint('later').execute();
      expect(await everyOperation(later)).toEqual(possible);
      await later.rollbackToSavepoint('later').execute();
      const kept = await repo.enqueueEffect(trx, { repoId: 'a', payload: '' });
      await trx.commit().execute();
      expect(await effectIds()).toEqual([kept]);
    } finally {
      if (!trx.isCommitted) await trx.rollback().execute();
    }
  });
});

async function effectIds(): Promise<bigint[]> {
  const { db } = database;
  const { rows } = await sql<{ id: bigint }>`select effect_id as id from ${table('effect_queue')}`.execute(
    db,
  );
  return rows.map((row) => row.id);
}

test('through a pooler in transaction mode it answers as ours does', async () => {
  await using pooler = await startPgBouncer(database.url);
  await using db = callersKysely({ url: pooler.url, plugins: [new CamelCasePlugin()] });
  expect(await everyOperation(db)).toEqual(expected);
});

describe.each(['repeatable read', 'serializable'] as const)("in a caller's %s transaction", (level) => {
  test('an effect is enqueued, and what has to see the newest rows says that it cannot', async () => {
    const { db: ours } = database;
    await fillQueue(ours, 'a', 3);
    const dead = await dispatcher.registerDispatcher(ours, { host: 'h', pid: 1, slots: 1, leaseMs: 1 });
    await using db = callersKysely();
    const id = await db
      .transaction()
      .setIsolationLevel(level)
      .execute(async (trx) => {
        await repo.enqueueEffects(trx, [
          { repoId: 'a', payload: '' },
          { repoId: 'b', payload: '', dedupKey: 'k' },
        ]);
        return await repo.enqueueEffect(trx, { repoId: 'a', payload: '', dedupKey: 'l' });
      });
    expect(await dispatcher.findEffect(ours, id)).toMatchObject({ state: 'enqueued' });
    const turns = [{ repoId: 'a', want: 1 }];
    const refused: ((trx: Kysely<DB>) => Promise<unknown>)[] = [
      (trx) => repo.claimEffects(trx, { repoId: 'a', claimedBy: 'w', limit: 1 }),
      (trx) => dispatcher.fairClaim(trx, { turns, claimedBy: 'w', defaultCap: 1 }),
      (trx) => dispatcher.dispatcherClaim(trx, { claimedBy: 'w', limit: 1, excludeRepos: [] }),
      (trx) => repo.cancelEffects(trx, { repoId: 'a', effectIds: [id], reason: 'why' }),
      (trx) => repo.enqueueEffects(trx, [{ repoId: 'limited', payload: '' }]),
      (trx) => dispatcher.dispatcherRequeueStale(trx, { olderThanMs: 0 }),
      (trx) => dispatcher.unregisterDispatcher(trx, dead),
    ];
    for (const run of refused) {
      const trx = db.transaction().setIsolationLevel(level).execute(run);
      await expect(trx).rejects.toMatchObject({ code: 'wrong_isolation' });
    }
  });
});
