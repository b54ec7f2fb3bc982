import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';

const LOOK_EVERY_MS = 1_000;

const HOT_TABLES = ['effect_queue', 'effect_claim', 'effect_dedup'];

/** Looks at the size again and again, while `during` lasts; returns its greatest and its last value. */
export async function watchHotTables(
  client: pg.Client,
  during: Promise<unknown>,
): Promise<{ peak: number; last: number }> {
  let isOver = false;
  const over = during.finally(() => (isOver = true));
  let peak = 0;
  while (!isOver) {
    peak = Math.max(peak, await hotTableBytes(client));
    await Promise.race([sleep(LOOK_EVERY_MS), over]);
  }
  const last = await hotTableBytes(client);
  return { peak: Math.max(peak, last), last };
}

/** Waits until the tables are below `bytesMax`, which autovacuum may have to see to, or until `secondsMax` have passed. */
export async function untilHotTablesBelow(
  client: pg.Client,
  { bytesMax, secondsMax }: { bytesMax: number; secondsMax: number },
): Promise<{ bytes: number; seconds: number }> {
  const startedAt = performance.now();
  for (;;) {
    const bytes = await hotTableBytes(client);
    const seconds = (performance.now() - startedAt) / 1_000;
    if (bytes < bytesMax || seconds >= secondsMax) return { bytes, seconds };
    await sleep(LOOK_EVERY_MS);
  }
}

/** Bytes of the tables whose rows live for seconds, their indexes included. */
async function hotTableBytes(client: pg.Client): Promise<number> {
  const { SCHEMA } = await import('@sluice/db');
  const { rows } = await client.query<{ bytes: number }>(
    `select sum(pg_total_relation_size(format('%I.%I', $1::text, name)::regclass))::float8 as bytes
       from unnest($2::text[]) as name`,
    [SCHEMA, HOT_TABLES],
  );
  return rows[0]!.bytes;
}
