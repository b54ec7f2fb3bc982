import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { Logger, makeWorkerUtils, run, runMigrations, type WorkerEvents } from 'graphile-worker';
import pg from 'pg';
import {
  CONNECTIONS,
  encodeJob,
  type Contender,
  type Job,
  type Session,
  type Worker,
  type WorkOptions,
} from './contender.ts';
import { assertVersion, readPackageFile } from './peer-version.ts';

const VERSION = '0.18.0';
/** Its performance page: batches fetched into a local queue of 500, completions batched, 24 jobs at once. */
const THROUGHPUT = {
  concurrentJobs: 24,
  localQueue: { size: 500 },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
};
const silent = new Logger(() => () => undefined);

/** graphile-worker, without named queues: those make jobs serial, and are slower. It deletes what is finished. */
export const graphileWorker: Contender = {
  async install(url) {
    assertVersion('graphile-worker', VERSION);
    await runMigrations({ connectionString: url, logger: silent });
  },
  async open(url): Promise<Session> {
    const pool = new pg.Pool({ connectionString: url, max: CONNECTIONS });
    pool.on('error', () => undefined);
    pool.on('connect', (client) => client.on('error', () => undefined));
    const utils = await makeWorkerUtils({ pgPool: pool, logger: silent });
    return {
      async enqueue(job) {
        await utils.addJob('effect', encodeJob(job));
      },
      async enqueueMany(jobs) {
        await utils.addJobs(jobs.map((job) => ({ identifier: 'effect', payload: encodeJob(job) })));
      },
      work: (options) => work(pool, options),
      async isDrained() {
        const { rows } = await pool.query('select 1 from graphile_worker._private_jobs limit 1');
        return rows.length === 0;
      },
      countHistory: () => Promise.resolve(null),
      async close() {
        await utils.release();
        await pool.end();
      },
    };
  },
  recoverySeconds: () => Promise.resolve(lockTimeoutSeconds()),
};

/** How long a crashed worker's jobs stay locked: a constant of its SQL. */
function lockTimeoutSeconds(): number {
  assertVersion('graphile-worker', VERSION);
  const hours = /interval '(\d+) hours'/.exec(
    readPackageFile('graphile-worker', 'dist/sql/resetLockedAt.js'),
  )?.[1];
  if (hours === undefined)
    throw new Error('graphile-worker: expected its lock timeout in resetLockedAt, found none');
  return Number(hours) * 3_600;
}

async function work(pool: pg.Pool, options: WorkOptions): Promise<Worker> {
  const isThroughput = options.purpose === 'throughput';
  const wanted = isThroughput ? THROUGHPUT : { concurrentJobs: options.slots };
  const events = new EventEmitter() as WorkerEvents;
  let settings: object | undefined;
  let largestFetch = 0;
  events.on('pool:create', ({ ctx }) => {
    settings = ctx.resolvedPreset.worker;
  });
  events.on('localQueue:getJobs:complete', ({ jobs }) => {
    largestFetch = Math.max(largestFetch, jobs.length);
  });
  const runner = await run({
    pgPool: pool,
    noHandleSignals: true,
    logger: silent,
    events,
    preset: { worker: wanted },
    taskList: { effect: (payload) => options.run(payload as Job) },
  });
  return {
    assertSettings() {
      // It fills in the settings that were left out.
      assert.partialDeepStrictEqual(
        settings,
        wanted,
        'graphile-worker does not run with the settings it was given',
      );
      if (isThroughput && largestFetch !== THROUGHPUT.localQueue.size)
        throw new Error(
          `graphile-worker: expected fetches of ${THROUGHPUT.localQueue.size}, got ${largestFetch}`,
        );
    },
    stop: () => runner.stop(),
  };
}
