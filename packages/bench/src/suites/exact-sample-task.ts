import { setTimeout as sleep } from 'node:timers/promises';
import { withClient } from '../harness/bench-server.ts';
import type { Task } from '../harness/task.ts';
import { CapWatch, type CapReport, type CapSnapshot } from '../measure/cap-watch.ts';

const EVERY_MS = 20;

/** Reads all open claims on a connection of its own, again and again, until it is told to stop. */
export const sampleTask: Task<{ url: string }, CapReport> = {
  name: 'exact-sample',
  async run(_contender, { url }, _report, stop) {
    // Here and not above: the processes of other contenders load no part of Sluice.
    const { SCHEMA } = await import('@sluice/db');
    const watch = new CapWatch();
    await withClient(url, async (client) => {
      let dueAt = performance.now();
      while (!stop.aborted) {
        const { rows } = await client.query<CapSnapshot>({ name: 'sample', text: openClaims(SCHEMA) });
        const now = performance.now();
        watch.add(rows[0]!, now);
        dueAt = Math.max(dueAt + EVERY_MS, now);
        await sleep(dueAt - now);
      }
    });
    return watch.report;
  },
};

function openClaims(schema: string): string {
  return `
    with open as (
      select c.repo_id, r.cap, count(*)::int as claims, extract(epoch from max(c.claimed_at))::float8 as newest_at
        from ${schema}.effect_claim c join ${schema}.repo r on r.repo_id = c.repo_id
       group by c.repo_id, r.cap
    )
    select coalesce(sum(claims), 0)::int as total,
           (select global_cap from ${schema}.queue_limit) as "globalCap",
           (count(*) filter (where claims = cap))::int as "reposAtCap",
           coalesce(jsonb_agg(jsonb_build_object('repo', repo_id, 'claims', claims, 'cap', cap, 'newestAt', newest_at))
                      filter (where claims > cap), '[]') as above
      from open`;
}
