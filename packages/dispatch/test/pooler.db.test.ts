import { createDatabase, migrate, type DB } from '@sluice/db';
import { enqueueEffect, enqueueEffects } from '@sluice/queue-core/repo';
import { PGBOUNCER_CONNECTIONS, startPgBouncer, useEmptyDatabase, type PgBouncer } from '@sluice/testkit';
import { sql, type Kysely } from 'kysely';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { names, PASS, useDispatchers } from './dispatchers.ts';
import { until } from './until.ts';

const database = useEmptyDatabase();
let pgBouncer: PgBouncer | undefined;
let pooled: Kysely<DB>;

beforeAll(async () => {
  pgBouncer = await startPgBouncer(database.url);
  pooled = createDatabase({
    connectionString: pgBouncer.url,
    applicationName: 'test pooled',
    connectionsMax: 20,
    pooler: 'transaction',
  });
  const applied = await migrate(pooled);
  expect(applied.length).toBeGreaterThan(0);
});

afterAll(async () => {
  await pooled?.destroy();
  await pgBouncer?.[Symbol.asyncDispose]();
});

const start = useDispatchers(database);

test('a second migration through the pooler finds nothing to do', async () => {
  expect(await migrate(pooled)).toEqual([]);
});

test('two dispatchers that only poll run everything once, by fewer connections than they have', async () => {
  await pooled.updateTable('queue_limit').set({ global_cap: 6 }).execute();
  await pooled.insertInto('repo').values({ repo_id: 'repo0', cap: 1, weight: 3, max_queued: 100 }).execute();
  await enqueueEffects(
    pooled,
    names(20).flatMap((repoId) =>
      Array.from({ length: 10 }, (_, index) => ({ repoId, payload: 'x', dedupKey: `k${index}` })),
    ),
  );
  const runs: bigint[] = [];
  let servers = 0;
  const run = async (
    { effectId }: { effectId: bigint },
    { log }: { log: (bytes: Uint8Array) => Promise<void> },
  ) => {
    runs.push(effectId);
    await log(Buffer.from('output'));
    servers = Math.max(servers, await serverConnections());
    return PASS;
  };
  const both = await Promise.all([start(run, { db: pooled }), start(run, { db: pooled })]);
  // What arrives while they run and poll: alone, in a transaction of the caller's, and with a delay.
  await enqueueEffect(pooled, { repoId: 'late', payload: 'x' });
  await pooled.transaction().execute(async (trx) => {
    await enqueueEffect(trx, { repoId: 'late', payload: 'x' });
    await enqueueEffects(trx, [{ repoId: 'late', payload: 'x', delayMs: 100 }]);
  });
  await until('all have run', () => runs.length >= 203);
  await Promise.all(both.map((dispatcher) => dispatcher.idle()));
  expect(new Set(runs).size).toBe(203);
  expect(runs).toHaveLength(203);
  const finished = await pooled.selectFrom('effect_history').select(['state', 'attempts']).execute();
  expect(finished).toHaveLength(203);
  expect(finished.filter(({ state, attempts }) => state !== 'done' || attempts !== 1)).toEqual([]);
  expect(await pooled.selectFrom('effect_claim').selectAll().execute()).toEqual([]);
  expect(both.flatMap((dispatcher) => dispatcher.of('claim_failed'))).toEqual([]);
  expect(servers).toBeGreaterThan(0);
  expect(servers).toBeLessThanOrEqual(PGBOUNCER_CONNECTIONS);
});

async function serverConnections(): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count from pg_stat_activity
     where datname = current_database() and backend_type = 'client backend' and application_name = 'test pooled'`.execute(
    database.db,
  );
  return rows[0]!.count;
}
