import { createDatabase, table } from '@sluice/db';
import { createRegistry } from '@sluice/service-kit';
import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { registerQueueMetrics } from './dispatcher-metrics.ts';

const database = useTestDatabase();

test('the oldest waiting effect is one number, whatever its repository', async () => {
  const { db } = database;
  await sql`insert into ${table('effect_queue')} (repo_id, payload, priority, enqueued_at)
    select 'r/' || n, '', 9, now() from generate_series(1, 50) n
     union all select 'starved', '', -1, now() - interval '2 hours'`.execute(db);
  const registry = createRegistry();
  registerQueueMetrics(registry, db);
  const lines = (await registry.metrics()).split('\n').filter((line) => line.startsWith('sluice_queue_'));
  expect(lines).toEqual([expect.stringMatching(/^sluice_queue_oldest_waiting_seconds 72\d\d(\.\d+)?$/)]);
});

test('it is unknown while the database does not answer, and the other metrics are there', async () => {
  await using db = createDatabase({
    connectionString: 'postgres://127.0.0.1:1/none',
    applicationName: 'test',
  });
  const registry = createRegistry();
  registerQueueMetrics(registry, db);
  const metrics = await registry.metrics();
  expect(metrics).toMatch(/^sluice_queue_oldest_waiting_seconds Nan$/im);
  expect(metrics).toContain('process_cpu_seconds_total');
});
