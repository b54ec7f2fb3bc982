import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { withClient } from '../harness/bench-server.ts';
import {
  CONNECTIONS,
  encodeJob,
  type ClaimBench,
  type Contender,
  type Job,
  type Session,
  type Worker,
  type WorkOptions,
} from './contender.ts';

/** Most polls a second when there is nothing to do. */
const POLL_MS = 50;

/**
 * The plain table that many teams write first, and that Sluice's own queue began as: a state column, one claim across
 * all repos in order of age that skips those at their cap, one update per completion. It stands for what is gained.
 */
export const documentContender: Contender = {
  install: (url) => withClient(url, (client) => client.query(TABLE).then(() => undefined)),
  async open(url): Promise<Session> {
    const pool = createPool(url);
    return {
      async enqueue(job) {
        await pool.query('insert into plain_queue (repo_id, payload) values ($1, $2)', [
          job.repo,
          JSON.stringify(encodeJob(job)),
        ]);
      },
      async enqueueMany(jobs) {
        await pool.query(
          'insert into plain_queue (repo_id, payload) select * from unnest($1::text[], $2::text[])',
          [jobs.map((job) => job.repo), jobs.map((job) => JSON.stringify(encodeJob(job)))],
        );
      },
      work: (options) => Promise.resolve(work(pool, options)),
      async isDrained() {
        const { rows } = await pool.query(`select 1 from plain_queue where state <> 'done' limit 1`);
        return rows.length === 0;
      },
      async countHistory() {
        const { rows } = await pool.query<{ n: number }>(
          `select count(*)::int as n from plain_queue where state = 'done'`,
        );
        return rows[0]?.n ?? 0;
      },
      close: () => pool.end(),
    };
  },
  openClaims,
};

const TABLE = `
  create table plain_queue (
    id bigint generated always as identity primary key,
    repo_id text not null,
    payload text not null,
    state text not null default 'enqueued',
    claimed_by text,
    claimed_at timestamptz,
    done_at timestamptz
  );
  create index on plain_queue (id) where state = 'enqueued'`;
const CLAIM = `
  update plain_queue set state = 'claimed', claimed_by = $1, claimed_at = now()
   where id in (select id from plain_queue where state = 'enqueued' and repo_id <> all($2)
                 order by id limit $3 for update skip locked)
  returning id, payload`;
const COMPLETE = `update plain_queue set state = 'done', done_at = now() where id = $1`;

interface ClaimedRow {
  id: string;
  payload: string;
}

function createPool(url: string): pg.Pool {
  const pool = new pg.Pool({ connectionString: url, max: CONNECTIONS });
  pool.on('error', () => undefined);
  return pool;
}

function work(pool: pg.Pool, { slots, run }: WorkOptions): Worker {
  let isStopping = false;
  let running = 0;
  const runOne = async ({ id, payload }: ClaimedRow): Promise<void> => {
    await run(JSON.parse(payload) as Job);
    await pool.query({ name: 'complete', text: COMPLETE, values: [id] });
    running -= 1;
  };
  const runs = new Set<Promise<void>>();
  const loop = async (): Promise<void> => {
    while (!isStopping) {
      const { rows } = await pool.query<ClaimedRow>({
        name: 'claim',
        text: CLAIM,
        values: ['worker', [], Math.max(1, slots - running)],
      });
      running += rows.length;
      for (const row of rows) {
        const one = runOne(row).finally(() => runs.delete(one));
        runs.add(one);
      }
      if (running >= slots) await Promise.race(runs);
      else if (rows.length === 0) await sleep(POLL_MS);
    }
    await Promise.all(runs);
  };
  const ended = loop();
  return {
    assertSettings: () => undefined,
    async stop() {
      isStopping = true;
      await ended;
    },
  };
}

function openClaims(url: string): ClaimBench {
  const pool = createPool(url);
  return {
    async load(repos, effectsOfEach) {
      await pool.query(
        `insert into plain_queue (repo_id, payload)
         select repo, 'x' from generate_series(1, $2) n, unnest($1::text[]) repo`,
        [repos, effectsOfEach],
      );
      await pool.query('analyze plain_queue');
    },
    async saturate(repos) {
      await pool.query(
        `update plain_queue set state = 'claimed' where id in (select min(id) from plain_queue where repo_id = any($1) group by repo_id)`,
        [repos],
      );
    },
    async claimTen(_open, saturated) {
      const startedAt = performance.now();
      const { rows } = await pool.query<ClaimedRow>({
        name: 'claim',
        text: CLAIM,
        values: ['worker', saturated, 10],
      });
      const ms = performance.now() - startedAt;
      if (rows.length !== 10) throw new Error(`document: expected 10 claimed effects, got ${rows.length}`);
      await pool.query(`update plain_queue set state = 'done', done_at = now() where id = any($1)`, [
        rows.map((row) => row.id),
      ]);
      return ms;
    },
    close: () => pool.end(),
  };
}
