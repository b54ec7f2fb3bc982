import { setTimeout as sleep } from 'node:timers/promises';
import type { Task } from '../harness/task.ts';
import type { ExactPayload } from './exact-dispatch-task.ts';

/** A deep wave gives a few repos more than they may run at once; a broad one gives all of them more than the queue may. */
const DEEP = { repos: 12, effectsOfEach: 30 };
const BROAD_EFFECTS_OF_EACH = 4;
/** The next wave comes when so few effects are unfinished. */
const UNFINISHED_MIN = 120;
/** Repos whose caps are changed while they have more to do than they may: from 3 and more down, from 2 and less up. */
const CHANGED = { repos: 10, effectsOfEach: 60, large: 3, lowered: 1, raised: 5 };
const LOOK_EVERY_MS = 50;
/** Enough for any effect that is lost with its dispatcher again and again. */
const ATTEMPTS_MAX = 1_000;

export interface FeedInput {
  url: string;
  /** Of each repo. */
  caps: ReadonlyMap<string, number>;
  changeAfterMs: number;
}

export interface FeedOutput {
  /** Effects that were enqueued, with the outcome that each must have. */
  expected: Map<bigint, string>;
  /** Repos whose cap was lowered, and from when on the lower one was in force: seconds by the database clock. */
  lowered: Map<string, number>;
}

/** Enqueues wave after wave until it is told to stop, and changes some caps on the way. Reports the first wave. */
export const feedTask: Task<FeedInput, FeedOutput> = {
  name: 'exact-feed',
  async run(_contender, { url, caps, changeAfterMs }, report, stop) {
    // Here and not above: the processes of other contenders load no part of Sluice.
    const { createDatabase, table } = await import('@sluice/db');
    const { enqueueEffects } = await import('@sluice/queue-core/repo');
    const { sql } = await import('kysely');
    const db = createDatabase({ connectionString: url, applicationName: 'bench-feed' });
    const expected = new Map<bigint, string>();
    let count = 0;
    const fixed = [...caps.keys()];
    const changed = fixed.splice(-CHANGED.repos);

    const enqueue = async (chosen: readonly string[], effectsOfEach: number): Promise<void> => {
      const effects = Array.from({ length: chosen.length * effectsOfEach }, (_, index) => ({
        repoId: chosen[index % chosen.length]!,
        payload: payloadOf(count++),
      }));
      const enqueued = await enqueueEffects(
        db,
        effects.map(({ repoId, payload }) => ({
          repoId,
          payload: JSON.stringify(payload),
          maxAttempts: ATTEMPTS_MAX,
        })),
      );
      for (const [index, { effectId }] of enqueued.entries())
        expected.set(effectId, effects[index]!.payload.outcome);
    };

    const unfinished = async (): Promise<number> => {
      const { rows } = await sql<{ n: number }>`
        select count(*)::int as n from ${table('effect_queue')}`.execute(db);
      return rows[0]!.n;
    };

    const isOneAbove = async (chosen: readonly string[], claims: number): Promise<boolean> => {
      const { rows } = await sql`
        select from ${table('effect_claim')} where repo_id = any(${chosen}::text[])
         group by repo_id having count(*) > ${claims} limit 1`.execute(db);
      return rows.length > 0;
    };

    /** As `sluice repo set --cap` does it; returns a moment from which on the cap is in force for every claim. */
    const setCap = async (chosen: readonly string[], cap: number): Promise<number> => {
      await db.updateTable('repo').set({ cap }).where('repo_id', 'in', chosen).execute();
      const { rows } = await sql<{ now: number }>`
        select extract(epoch from clock_timestamp())::float8 as now`.execute(db);
      return rows[0]!.now;
    };

    const change = async (): Promise<Map<string, number>> => {
      await sleep(changeAfterMs);
      const large = changed.filter((repo) => caps.get(repo)! >= CHANGED.large);
      const small = changed.filter((repo) => caps.get(repo)! < CHANGED.large);
      await enqueue(changed, CHANGED.effectsOfEach);
      while (!stop.aborted && !(await isOneAbove(large, CHANGED.lowered))) await sleep(LOOK_EVERY_MS);
      const at = await setCap(large, CHANGED.lowered);
      await setCap(small, CHANGED.raised);
      return new Map(large.map((repo) => [repo, at]));
    };

    const feed = async (): Promise<void> => {
      for (let wave = 0; !stop.aborted; wave += 1) {
        const first = (wave * DEEP.repos) % (fixed.length - DEEP.repos);
        if (wave % 2 === 0) await enqueue(fixed.slice(first, first + DEEP.repos), DEEP.effectsOfEach);
        else await enqueue([...caps.keys()], BROAD_EFFECTS_OF_EACH);
        if (wave === 0) report('fed');
        while (!stop.aborted && (await unfinished()) > UNFINISHED_MIN) await sleep(LOOK_EVERY_MS);
      }
    };

    const [lowered] = await Promise.all([change(), feed()]);
    await db.destroy();
    return { expected, lowered };
  },
};

/** From a few milliseconds to a few hundred, most of them short; one in five ends with an answer that is no pass. */
function payloadOf(number: number): ExactPayload {
  // Multiples of the golden ratio are spread evenly over 0 to 1, and the same in every run.
  const spread = (number * 0.618_033_988_749_895) % 1;
  return { ms: Math.round(3 + 300 * spread ** 3), outcome: number % 5 === 0 ? 'fail' : 'pass' };
}
