import { PgBoss, type ConstructorOptions } from 'pg-boss';
import {
  CONNECTIONS,
  encodeJob,
  type Contender,
  type Job,
  type Session,
  type Worker,
  type WorkOptions,
} from './contender.ts';
import { assertVersion } from './peer-version.ts';

const VERSION = '12.38.0';
const QUEUE = 'effect';
/** Fetching at once again while batches come back full; two loops, so that fetch and completion overlap. */
const THROUGHPUT = {
  batchSize: 500,
  burstWhenBatchFull: true,
  localConcurrency: 2,
  pollingIntervalSeconds: 0.5,
};

/** pg-boss with batches, one queue, and nothing beside it that takes time: no schedules, no supervision. */
export const pgBoss: Contender = {
  async install(url) {
    assertVersion('pg-boss', VERSION);
    const boss = await started(url);
    // The notification serves the latency suite; elsewhere nobody listens, and none is sent.
    await boss.createQueue(QUEUE, { notify: false });
    await boss.stop({ graceful: false });
  },
  async open(url): Promise<Session> {
    const boss = await started(url, { useListenNotify: true });
    const db = boss.getDb();
    return {
      async enqueue(job) {
        await boss.send(QUEUE, encodeJob(job));
      },
      async enqueueMany(jobs) {
        await boss.insert(
          QUEUE,
          jobs.map((job) => ({ data: encodeJob(job) })),
        );
      },
      work: (options) => work(boss, options),
      async isDrained() {
        const { rows } = await db.executeSql(`select 1 from pgboss.job where state < 'completed' limit 1`);
        return rows.length === 0;
      },
      async countHistory() {
        const { rows } = await db.executeSql(
          `select count(*)::int as n from pgboss.job where state = 'completed'`,
        );
        return (rows as { n: number }[])[0]?.n ?? 0;
      },
      close: () => boss.stop({ graceful: false }),
    };
  },
  recoverySeconds,
};

/** How long the job of a crashed worker stays active: the default of its queues, read from one. */
async function recoverySeconds(url: string): Promise<number> {
  const boss = await started(url);
  try {
    const queue = await boss.getQueue(QUEUE);
    if (queue?.expireInSeconds === undefined || (queue.heartbeatSeconds ?? null) !== null)
      throw new Error('pg-boss: expected a default expiration and no heartbeat');
    return queue.expireInSeconds;
  } finally {
    await boss.stop({ graceful: false });
  }
}

async function started(url: string, options: ConstructorOptions = {}): Promise<PgBoss> {
  const boss = new PgBoss({
    connectionString: url,
    max: CONNECTIONS,
    schedule: false,
    supervise: false,
    ...options,
  });
  boss.on('error', (error) => process.stderr.write(`pg-boss: ${String(error)}\n`));
  return await boss.start();
}

async function work(boss: PgBoss, { purpose, slots, run }: WorkOptions): Promise<Worker> {
  const isThroughput = purpose === 'throughput';
  if (!isThroughput) await boss.updateQueue(QUEUE, { notify: true });
  const settings = await boss.getQueue(QUEUE);
  if (!isThroughput && settings?.notify !== true) throw new Error('pg-boss: expected a queue that notifies');
  let largestBatch = 0;
  await boss.work<Job>(
    QUEUE,
    isThroughput
      ? THROUGHPUT
      : { localConcurrency: Math.min(slots, CONNECTIONS - 2), pollingIntervalSeconds: 0.5 },
    async (jobs) => {
      largestBatch = Math.max(largestBatch, jobs.length);
      for (const job of jobs) await run(job.data);
    },
  );
  return {
    assertSettings() {
      if (isThroughput && largestBatch !== THROUGHPUT.batchSize)
        throw new Error(`pg-boss: expected batches of ${THROUGHPUT.batchSize}, got at most ${largestBatch}`);
    },
    stop: () => boss.offWork(QUEUE),
  };
}
