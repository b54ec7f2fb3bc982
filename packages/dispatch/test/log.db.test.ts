import { hash } from 'node:crypto';
import { createDatabase, table, type DB } from '@sluice/db';
import { sql, type Kysely } from 'kysely';
import { dispatcherComplete, type Claim } from '@sluice/queue-core/dispatcher';
import { startTcpProxy, useTestDatabase } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { BoundedCalls } from '../src/bounded-calls.ts';
import { systemClock, type Clock } from '../src/clock.ts';
import type { DispatchEvent, RunContext } from '../src/index.ts';
import { LogWriter } from '../src/log-writer.ts';
import { enqueue, PASS, useDispatchers } from './dispatchers.ts';
import { until } from './until.ts';

const database = useTestDatabase();
const start = useDispatchers(database);

async function storedChunks(claim?: Claim) {
  return await database.db
    .selectFrom('effect_log')
    .select(['seq', 'attempt', 'bytes'])
    .$if(claim !== undefined, (query) => query.where('claim_number', '=', claim!.claimNumber))
    .orderBy('seq')
    .execute();
}

async function openClaim(): Promise<Claim> {
  const { db } = database;
  await db.deleteFrom('effect_log').execute();
  const { effect_id } = await db
    .insertInto('effect_queue')
    .values({ repo_id: 'a', payload: '' })
    .returning('effect_id')
    .executeTakeFirstOrThrow();
  const { claim_number } = await db
    .insertInto('effect_claim')
    .values({ repo_id: 'a', effect_id, attempt: 1, claimant: 'me' })
    .returning('claim_number')
    .executeTakeFirstOrThrow();
  return {
    effectId: effect_id as Claim['effectId'],
    repoId: 'a',
    claimNumber: claim_number,
    attempt: 1,
    claimant: 'me',
  };
}

function writerOf(claim: Claim, parts: { db?: Kysely<DB>; clock?: Clock } = {}) {
  const events: DispatchEvent[] = [];
  const emit = (event: DispatchEvent): number => events.push(event);
  const { db = database.db, clock = systemClock } = parts;
  return { writer: new LogWriter({ db, clock, claim, calls: new BoundedCalls(clock), emit }), events };
}

/** Tells bytes that are too many to be shown. */
function summary(parts: readonly Uint8Array[]) {
  const all = Buffer.concat(parts);
  return { bytes: all.length, begin: all.toString('latin1', 0, 40), sha256: hash('sha256', all) };
}

test('output of a run is stored in order before its claim is closed, whatever bytes it has', async () => {
  await enqueue(database.db, ['a'], 1);
  const parts = [Buffer.from('first line\n'), Buffer.from([0, 0xff, 0xc3, 0x28]), Buffer.alloc(300_000, 'x')];
  const dispatcher = await start(async (_, { log }) => {
    for (const part of parts) await log(part);
    return PASS;
  });
  await dispatcher.idle();
  const chunks = await storedChunks();
  expect(dispatcher.of('log_chunk_lost')).toEqual([]);
  expect(chunks.map(({ seq }) => seq)).toEqual(chunks.map((_, index) => index + 1));
  expect(summary(chunks.map(({ bytes }) => bytes))).toEqual(summary(parts));
});

test('a caller may use its buffer again at once', async () => {
  const claim = await openClaim();
  const { writer } = writerOf(claim);
  const buffer = Buffer.alloc(4);
  for (const text of ['one ', 'two ', 'end.']) {
    buffer.write(text);
    await writer.write(buffer);
  }
  await writer.end();
  const chunks = await storedChunks(claim);
  expect(Buffer.concat(chunks.map(({ bytes }) => bytes)).toString()).toBe('one two end.');
});

test('output after the end of a run is lost in silence', async () => {
  await enqueue(database.db, ['a'], 1);
  let late: RunContext['log'] | undefined;
  const dispatcher = await start((_, { log }) => {
    late = log;
    return Promise.resolve(PASS);
  });
  await until('it is done', () => dispatcher.stats.completed === 1);
  await expect(late!(Buffer.from('late'))).resolves.toBeUndefined();
});

test('a flush stores what there is without waiting for more, and more may follow', async () => {
  const claim = await openClaim();
  // Time to gather output never passes by itself.
  const sleep = (_: number, signal?: AbortSignal): Promise<void> =>
    new Promise((resolve) => signal?.addEventListener('abort', () => resolve()));
  const { writer } = writerOf(claim, { clock: { now: () => 0, sleep } });
  const stored = async (): Promise<string> =>
    Buffer.concat((await storedChunks(claim)).map(({ bytes }) => bytes)).toString();
  await writer.flush();
  for (const text of ['one ', 'two ']) await writer.write(Buffer.from(text));
  await writer.flush();
  expect(await stored()).toBe('one two ');
  await writer.write(Buffer.from('three'));
  expect(await stored()).toBe('one two ');
  await writer.end();
  expect(await stored()).toBe('one two three');
});

test('a run whose claim is completed elsewhere keeps its output if it flushes first', async () => {
  await enqueue(database.db, ['a'], 1);
  let claimed: Claim | undefined;
  const dispatcher = await start(async (effect, { log, flush }) => {
    claimed = effect;
    await log(Buffer.from('all of it'));
    await flush();
    await dispatcherComplete(database.db, effect, { outcome: 'pass' });
    return { status: 'settled' };
  });
  await dispatcher.idle();
  const chunks = await storedChunks(claimed);
  expect(Buffer.concat(chunks.map(({ bytes }) => bytes)).toString()).toBe('all of it');
});

test('a writer that is faster than the database has to wait', async () => {
  const claim = await openClaim();
  const { writer } = writerOf(claim);
  const locked = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  const holding = database.db.transaction().execute(async (trx) => {
    await sql`lock table ${table('effect_log')} in exclusive mode`.execute(trx);
    locked.resolve();
    await release.promise;
  });
  await locked.promise;
  let written = 0;
  const writing = (async () => {
    for (let i = 0; i < 20; i++) {
      await writer.write(Buffer.alloc(32 * 1024));
      written += 1;
    }
  })();
  await until('it writes', () => written > 0);
  await new Promise((resolve) => setImmediate(resolve));
  expect(written).toBeLessThan(20);
  release.resolve();
  await Promise.all([holding, writing]);
  await writer.end();
  const chunks = await storedChunks(claim);
  expect(chunks.reduce((sum, { bytes }) => sum + bytes.length, 0)).toBe(20 * 32 * 1024);
});

/** Bounds pass a hundred times faster, until it is told to be patient. */
function hastyClock() {
  let speed = 100;
  return {
    now: () => performance.now() * speed,
    sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(ms / speed, signal),
    bePatient: () => {
      speed = 1;
    },
  };
}

test('a chunk that cannot be stored in time is given up, and shows as a gap in the numbers', async () => {
  const claim = await openClaim();
  const { hostname, port } = new URL(database.url);
  await using proxy = await startTcpProxy({ host: hostname, port: Number(port || 5432) });
  const cut = createDatabase({ connectionString: proxy.through(database.url), applicationName: 'cut' });
  const clock = hastyClock();
  const { writer, events } = writerOf(claim, { db: cut, clock });
  await proxy.refuse();
  await writer.write(Buffer.from('lost'));
  await until('the chunk is given up', () => events.length === 1);
  expect(events).toMatchObject([
    { name: 'log_chunk_lost', seq: 1, bytes: 4, claimNumber: claim.claimNumber },
  ]);
  clock.bePatient();
  await proxy.accept();
  await cut.selectFrom('queue_limit').selectAll().execute();
  await writer.write(Buffer.from('kept'));
  await until('the next one is stored', async () => (await storedChunks(claim)).length === 1);
  await writer.end();
  expect(await storedChunks(claim)).toEqual([{ seq: 2, attempt: 1, bytes: Buffer.from('kept') }]);
  await cut.destroy();
});

test('a stalled log table does not keep a run from ending', async () => {
  const claim = await openClaim();
  const { writer, events } = writerOf(claim, { clock: hastyClock() });
  const locked = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  const holding = database.db.transaction().execute(async (trx) => {
    await sql`lock table ${table('effect_log')} in access exclusive mode`.execute(trx);
    locked.resolve();
    await release.promise;
  });
  await locked.promise;
  for (let i = 0; i < 4; i++) await writer.write(Buffer.alloc(60 * 1024));
  await writer.end();
  expect(events.length).toBeGreaterThan(0);
  release.resolve();
  await holding;
});

test('nothing is stored for a claim that was lost, and its writer is not held up', async () => {
  const claim = await openClaim();
  await database.db.deleteFrom('effect_claim').where('claim_number', '=', claim.claimNumber).execute();
  const { writer, events } = writerOf(claim);
  for (let i = 0; i < 50; i++) await writer.write(Buffer.alloc(32 * 1024));
  await writer.end();
  expect(await storedChunks(claim)).toEqual([]);
  expect(events).toEqual([]);
});
