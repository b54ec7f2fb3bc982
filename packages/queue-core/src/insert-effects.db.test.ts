import { CHANNELS, table, type DB } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { sql, type Kysely } from 'kysely';
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { enqueueEffect } from './enqueue-effect.ts';
import { enqueueEffects } from './enqueue-effects.ts';
import { insertManyQuery } from './insert-effects.ts';
import type { NewEffect } from './new-effect.ts';

const database = useTestDatabase();
let listener: pg.Client;
let heard: string[] = [];

beforeAll(async () => {
  listener = new pg.Client({ connectionString: database.url });
  listener.on('notification', ({ payload }) => heard.push(payload ?? ''));
  await listener.connect();
  await listener.query(`listen ${CHANNELS.effects}`);
});
afterAll(() => listener.end());
beforeEach(async () => {
  heard = [];
  await database.db.deleteFrom('dispatcher').execute();
  await database.db
    .insertInto('dispatcher')
    .values({ host: 'h', pid: 1, slots: 1, lease_ms: 20_000 })
    .execute();
});

/** What an enqueue notified: notifications arrive in commit order, so all that came before the last one is known. */
async function notified(enqueue: (db: Kysely<DB>) => Promise<unknown>): Promise<string[]> {
  await enqueue(database.db);
  await sql`select pg_notify(${CHANNELS.effects}, 'end')`.execute(database.db);
  await expect.poll(() => heard.at(-1), { timeout: 20_000 }).toBe('end');
  return heard.slice(0, -1);
}

const sleep = () => database.db.updateTable('dispatcher').set({ is_sleeping: true }).execute();
const enqueue = (...effects: NewEffect[]) => notified((db) => enqueueEffects(db, effects));

test('nobody sleeps: no notification', async () => {
  expect(await enqueue({ repoId: 'n/1', payload: 'x' })).toEqual([]);
});

test('somebody sleeps: the first new effect of each repo is announced', async () => {
  await sleep();
  const effects = ['n/1', 'n/2', 'n/1', 'n/2'].map((repoId) => ({ repoId, payload: 'x' }));
  const before = await database.db.selectFrom('effect_queue').select('effect_id').execute();
  const payloads = await enqueue(...effects);
  const rows = await database.db
    .selectFrom('effect_queue')
    .select(['effect_id', 'repo_id'])
    .where('effect_id', 'not in', [0n, ...before.map((row) => row.effect_id)])
    .orderBy('effect_id')
    .execute();
  expect(payloads.toSorted()).toEqual(
    rows
      .slice(0, 2)
      .map((row) => `${row.effect_id} ${row.repo_id}`)
      .toSorted(),
  );
});

test('somebody sleeps: effects that share a statement announce each repo, but not one that refused its effect', async () => {
  await sleep();
  await database.db.insertInto('repo').values({ repo_id: 'n/full', max_queued: 0 }).execute();
  const payloads = await notified((db) =>
    Promise.allSettled(
      ['n/5', 'n/full', 'n/6', 'n/5'].map((repoId) => enqueueEffect(db, { repoId, payload: 'x' })),
    ),
  );
  expect(payloads.map((payload) => payload.split(' ')[1]!).toSorted()).toEqual(['n/5', 'n/6']);
});

test('what has to wait anyway, and what is a duplicate, is not announced', async () => {
  await sleep();
  expect(await enqueue({ repoId: 'n/3', payload: 'x', delayMs: 3_600_000 })).toEqual([]);
  heard = [];
  expect(await enqueue({ repoId: 'n/3', payload: 'x', dedupKey: 'k' })).toHaveLength(1);
  heard = [];
  expect(await enqueue({ repoId: 'n/3', payload: 'x', dedupKey: 'k' })).toEqual([]);
});

test('a rolled back enqueue announces nothing', async () => {
  await sleep();
  const payloads = await notified((db) =>
    db
      .transaction()
      .execute(async (trx) => {
        await enqueueEffects(trx, [{ repoId: 'n/4', payload: 'x' }]);
        throw new Error('no');
      })
      .catch(() => undefined),
  );
  expect(payloads).toEqual([]);
});

test('the statement does not grow with the number of effects, and names every table in full', () => {
  const effects = (count: number) => Array.from({ length: count }, () => ({ repoId: 'r', payload: 'x' }));
  const one = insertManyQuery(effects(1), { unlessLimited: 'batch' });
  const many = insertManyQuery(effects(10_000), { unlessLimited: 'batch' });
  expect(many.sql).toBe(one.sql);
  expect(many.parameters).toHaveLength(one.parameters.length);
  for (const name of ['effect_queue', 'repo', 'dispatcher'] as const) {
    expect(one.sql).toContain(sql`${table(name)}`.compile(database.db).sql);
  }
});

test('however effects differ, there are few statements to prepare, and each keeps what it was given', async () => {
  const given = {
    name: 'n',
    priority: 2,
    maxAttempts: 5,
    delayMs: 3_600_000,
    dedupKey: 'k',
    concurrencyGroup: 'g',
    pushId: 'p',
  };
  const names = Object.keys(given) as (keyof typeof given)[];
  const texts = new Set<string>();
  for (let which = 0; which < 2 ** names.length; which += 1) {
    const some = Object.fromEntries(
      names.filter((_, bit) => (which >> bit) % 2 === 1).map((name) => [name, given[name]]),
    );
    const effects = [
      { repoId: 'r', payload: 'bare' },
      { repoId: 'r', payload: 'given', ...some },
    ];
    for (const unlessLimited of ['batch', 'effect'] as const)
      texts.add(insertManyQuery(effects, { unlessLimited }).sql);
  }
  expect(texts.size).toBeLessThanOrEqual(32);
  await enqueueEffects(database.db, [
    { repoId: 'shapes', payload: 'bare' },
    { repoId: 'shapes', payload: 'given', priority: 2, pushId: 'p' },
  ]);
  const rows = await database.db
    .selectFrom('effect_queue')
    .select(['payload', 'name', 'priority', 'max_attempts', 'run_at', 'push_id'])
    .where('repo_id', '=', 'shapes')
    .orderBy('effect_id')
    .execute();
  expect(rows).toEqual([
    { payload: 'bare', name: '', priority: 0, max_attempts: 3, run_at: null, push_id: null },
    { payload: 'given', name: '', priority: 2, max_attempts: 3, run_at: null, push_id: 'p' },
  ]);
});
