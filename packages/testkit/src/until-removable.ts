import { sql, type Kysely } from 'kysely';
import { setTimeout as sleep } from 'node:timers/promises';

const BOUND_MS = 60_000;

/**
 * Waits until a vacuum would remove whatever has been deleted before. An open transaction in *any* database of the server
 * that has written something holds back the snapshots of all, and so what a vacuum removes: other tests have such ones.
 */
export async function untilRemovable<DB>(db: Kysely<DB>): Promise<void> {
  const now = await sql<{ xid: string }>`select pg_current_xact_id()::text as xid`.execute(db);
  const { xid } = now.rows[0]!;
  const deadline = performance.now() + BOUND_MS;
  while (true) {
    const { rows } = await sql<{ isPast: boolean }>`
      select pg_snapshot_xmin(pg_current_snapshot()) > ${xid}::xid8 as "isPast"`.execute(db);
    if (rows[0]!.isPast) return;
    if (performance.now() > deadline)
      throw new Error(
        `expected every transaction of the server to end within ${BOUND_MS} ms: see backend_xid in pg_stat_activity`,
      );
    await sleep(15);
  }
}
