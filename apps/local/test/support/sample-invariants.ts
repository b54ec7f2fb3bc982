import { setImmediate } from 'node:timers/promises';
import type { DB } from '@sluice/db';
import { sql, type Kysely } from 'kysely';

export interface Sampler {
  /** Ends sampling; returns every violation that was seen, and how often it looked. */
  stop(): Promise<{ violations: string[]; samples: number; mostClaimed: number }>;
}

/**
 * Everything that must hold at every committed snapshot, as one statement: each row is a violation. `cap` is that of
 * every repository; a definition in these tests matches every branch.
 */
const violations = (cap: number) => sql<{ what: string }>`
  select format('%s claims of %s, whose cap is %s', count(*), repo_id, ${cap}::int) as what
    from sluice.effect_claim group by repo_id having count(*) > ${cap}
  union all
  select format('effect %s has %s claims', effect_id, count(*))
    from sluice.effect_claim group by effect_id having count(*) > 1
  union all
  select format('effect %s is claimed and not in the queue', c.effect_id)
    from sluice.effect_claim c left join sluice.effect_queue q using (effect_id) where q.effect_id is null
  union all
  select format('effect %s is finished and still in the queue', h.effect_id)
    from sluice.effect_history h join sluice.effect_queue q using (effect_id)
  union all
  select format('effect %s finished %s times', effect_id, count(*))
    from sluice.effect_history group by effect_id having count(*) > 1
  union all
  select format('effect %s has spent %s of %s attempts', effect_id, attempts, max_attempts)
    from sluice.effect where attempts > max_attempts
  union all
  select format('%s: branch %s of push %s has %s effects', r.repo_id, r.name, r.push_id, count(e.effect_id))
    from sluice.reflog r
    left join sluice.effect e on e.push_id = r.push_id and e.payload::jsonb #>> '{trigger,ref}' = r.name
   where r.name like 'refs/heads/%' and r.new_oid is not null
   group by r.repo_id, r.name, r.push_id having count(e.effect_id) <> 1
  union all
  select format('%s: op record %s follows %s, not %s', repo_id, seq, parent, before)
    from (select repo_id, seq, parent, lag(push_id) over log as before, row_number() over log as place
            from sluice.op_record window log as (partition by repo_id order by seq)) o
   where parent is distinct from before or seq <> place
  union all
  select format('%s: tip is %s (%s), and the log ends otherwise', p.repo_id, p.op_tip, p.op_seq)
    from sluice.repo p
   where not exists (
     select from sluice.op_record o where o.repo_id = p.repo_id and o.push_id = p.op_tip and o.seq = p.op_seq)
     and p.op_seq > 0
  union all
  select format('%s: %s is %s, and the reflog says %s', repo_id, name, f.oid, l.new_oid)
    from sluice.ref f
    full join (select distinct on (repo_id, name) repo_id, name, new_oid
                 from sluice.reflog order by repo_id, name, reflog_id desc) l using (repo_id, name)
   where f.oid is distinct from l.new_oid`;

/** What a finished effect was when first seen finished must stay so: a digest per effect. */
const finished = sql<{ effect_id: bigint; digest: string }>`
  select effect_id, md5(h::text) as digest from sluice.effect_history h`;

/** Checks the invariants again and again until stopped. */
export function sampleInvariants(db: Kysely<DB>, { cap }: { cap: number }): Sampler {
  const seen = new Set<string>();
  const digests = new Map<bigint, string>();
  let isStopping = false;
  let samples = 0;
  let mostClaimed = 0;
  const look = async (): Promise<void> => {
    const { rows } = await violations(cap).execute(db);
    for (const { what } of rows) seen.add(what);
    for (const { effect_id: id, digest } of (await finished.execute(db)).rows) {
      const former = digests.get(id);
      if (former !== undefined && former !== digest) seen.add(`effect ${id} changed after it was finished`);
      digests.set(id, digest);
    }
    const claims = await sql<{
      count: number;
    }>`select count(*)::int as count from sluice.effect_claim`.execute(db);
    mostClaimed = Math.max(mostClaimed, claims.rows[0]!.count);
    samples += 1;
  };
  const sampling = (async () => {
    while (!isStopping) {
      await look();
      await setImmediate();
    }
    await look();
  })();
  // Its error is for the one who stops it.
  sampling.catch(() => undefined);
  return {
    async stop() {
      isStopping = true;
      await sampling;
      return { violations: [...seen], samples, mostClaimed };
    },
  };
}
