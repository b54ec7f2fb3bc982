import { createDatabase, table } from '@sluice/db';
import { createRegistry } from '@sluice/service-kit';
import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { registerDispatcherMetrics, registerQueueMetrics } from './dispatcher-metrics.ts';

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

test('what only grows is a counter, and says the same however often somebody asks', async () => {
  const registry = createRegistry();
  const none = { running: 2, claimed: 0, completed: 0, retried: 0, dead: 0, stale: 0, handedBack: 0 };
  registerDispatcherMetrics(registry, () => ({ ...none, claimed: 7 }));
  await registry.metrics();
  const lines = (await registry.metrics()).split('\n');
  expect(lines).toContain('sluice_effects_claimed_total 7');
  expect(lines).toContain('sluice_effects_running 2');
  const types = lines.filter((line) => line.startsWith('# TYPE sluice_'));
  for (const line of types) expect(line.endsWith(' counter')).toBe(line.includes('_total '));
  expect(types).toHaveLength(7);
});
