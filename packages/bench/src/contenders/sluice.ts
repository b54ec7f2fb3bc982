import { createDatabase, migrate, SCHEMA, table, type DB } from '@sluice/db';
import { startDispatcher, type DispatchEvent } from '@sluice/dispatch';
import { dispatcherCompleteMany, fairClaim, readyRepos } from '@sluice/queue-core/dispatcher';
import { enqueueEffect, enqueueEffects } from '@sluice/queue-core/repo';
import { sql, type Kysely } from 'kysely';
import {
  CONNECTIONS,
  encodeJob,
  type CappedSession,
  type ClaimBench,
  type Contender,
  type Job,
} from './contender.ts';

/** Slots that keep a dispatcher of no-op effects busy: claims and completions of hundreds of effects each. */
const THROUGHPUT_SLOTS = 1_000;
/** More than any suite runs of one repo at once: the default where a repo has no cap of its own is out of reach. */
const CAP_OUT_OF_REACH = 100_000;

/** Sluice: effects by the repo door, run by a dispatcher with its defaults, history kept, every completion fenced. */
export const sluiceContender: Contender = {
  async install(url) {
    const db = open(url);
    await migrate(db);
    await db.destroy();
  },
  open: (url) => Promise.resolve(openSession(url)),
  openCapped: openSession,
  openClaims,
};

function openSession(url: string): CappedSession {
  let claimMs = 0;
  const db = open(url, (text, ms) => {
    if (text.includes(`"${SCHEMA}"."fair_claim"`)) claimMs += ms;
  });
  return {
    async enqueue(job) {
      await enqueueEffect(db, newEffect(job));
    },
    async enqueueMany(jobs) {
      await enqueueEffects(db, jobs.map(newEffect));
    },
    async work({ purpose, slots, run, repoCap }) {
      const dispatcher = await startDispatcher({
        db,
        connectionString: url,
        slots: purpose === 'throughput' ? THROUGHPUT_SLOTS : slots,
        repoCap: repoCap ?? CAP_OUT_OF_REACH,
        run: async (effect) => {
          await run(JSON.parse(effect.payload) as Job);
          return { status: 'done', outcome: 'pass' };
        },
        onEvent: failOnError,
      });
      return {
        assertSettings() {
          if (dispatcher.stats.stale > 0)
            throw new Error(`sluice: ${dispatcher.stats.stale} completions were stale`);
        },
        stop: () => dispatcher.stop(),
      };
    },
    async isDrained() {
      const { rows } = await sql`select 1 from ${table('effect_queue')} limit 1`.execute(db);
      return rows.length === 0;
    },
    async countHistory() {
      const { rows } = await sql<{ n: number }>`
        select count(*)::int as n from ${table('effect_history')} where state = 'done'`.execute(db);
      return rows[0]?.n ?? 0;
    },
    setCaps: (repos, cap) => setCaps(db, repos, cap),
    load: (repos, effectsOfEach, from) => load(db, repos, effectsOfEach, from),
    saturate: (repos) => saturate(db, repos),
    claimMs: () => claimMs,
    close: () => db.destroy(),
  };
}

function openClaims(url: string): ClaimBench {
  const db = open(url);
  const marks = new Map<string, { sinceClaimNumber?: bigint; sinceEffectId?: bigint }>();
  return {
    load: (repos, effectsOfEach) => load(db, repos, effectsOfEach, 0),
    saturate: (repos) => saturate(db, repos),
    async claimTen(open, saturated) {
      // The saturated repos are named first, as by a dispatcher that does not know yet that they are.
      const turns = [...saturated, ...open].map((repoId) => ({ repoId, want: 1, ...marks.get(repoId) }));
      const startedAt = performance.now();
      const { effects, findings } = await fairClaim(db, {
        claimedBy: 'bench',
        turns,
        defaultCap: CAP_OUT_OF_REACH,
      });
      const ms = performance.now() - startedAt;
      if (effects.length !== 10)
        throw new Error(`sluice: expected 10 claimed effects, got ${effects.length}`);
      for (const { repoId, lowestClaim, lowestWaiting } of findings)
        marks.set(repoId, {
          ...(lowestClaim === null ? {} : { sinceClaimNumber: lowestClaim }),
          ...(lowestWaiting === null ? {} : { sinceEffectId: lowestWaiting }),
        });
      await dispatcherCompleteMany(
        db,
        effects.map((claim) => ({ claim, outcome: 'pass' })),
      );
      return ms;
    },
    async sweep() {
      const startedAt = performance.now();
      await readyRepos(db, { limit: 1_000 });
      return performance.now() - startedAt;
    },
    close: () => db.destroy(),
  };
}

/** A measurement during which something failed and was retried says nothing: it ends the process. */
function failOnError(event: DispatchEvent): void {
  if (!('error' in event) || !(event.error instanceof Error)) return;
  const { name, error } = event;
  setImmediate(() => {
    throw new Error(`sluice: ${name}`, { cause: error });
  });
}

function open(url: string, onStatement?: (text: string, ms: number) => void): Kysely<DB> {
  const options = { connectionString: url, applicationName: 'bench', connectionsMax: CONNECTIONS };
  if (onStatement === undefined) return createDatabase(options);
  return createDatabase({
    ...options,
    log: ({ query, queryDurationMillis }) => onStatement(query.sql, queryDurationMillis),
  });
}

async function load(
  db: Kysely<DB>,
  repos: readonly string[],
  effectsOfEach: number,
  from: number,
): Promise<void> {
  const { padding } = encodeJob({ repo: '', number: 0 });
  await sql`
    insert into ${table('effect_queue')} (repo_id, payload)
    select repo, jsonb_build_object('repo', repo, 'number', ${from}::int + row_number() over () - 1, 'padding', ${padding}::text)::text
      from generate_series(1, ${effectsOfEach}::int) n, unnest(${repos}::text[]) repo`.execute(db);
  await sql`analyze ${table('effect_queue')}`.execute(db);
}

async function setCaps(db: Kysely<DB>, repos: readonly string[], cap: number): Promise<void> {
  await sql`
    insert into ${table('repo')} (repo_id, cap) select unnest(${repos}::text[]), ${cap}::int
        on conflict (repo_id) do update set cap = excluded.cap`.execute(db);
}

async function saturate(db: Kysely<DB>, repos: readonly string[]): Promise<void> {
  await setCaps(db, repos, 1);
  await sql`
    insert into ${table('effect_claim')} (repo_id, effect_id, attempt, claimant)
    select repo_id, min(effect_id), 1, 'bench' from ${table('effect_queue')}
     where repo_id = any(${repos}::text[]) group by repo_id`.execute(db);
}

function newEffect(job: Job) {
  return { repoId: job.repo, payload: JSON.stringify(encodeJob(job)) };
}
