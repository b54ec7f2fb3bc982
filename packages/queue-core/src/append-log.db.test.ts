import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { beforeEach, expect, test, vi } from 'vitest';
import { claimSome, emptyQueue, fillQueue } from '../test/fill-queue.ts';
import { appendLog } from './append-log.ts';
import { qualified } from './day-partition.ts';
import { dispatcherComplete } from './dispatcher-complete.ts';
import { dispatcherFail } from './dispatcher-fail.ts';
import { promoteDue } from './promote-due.ts';
import { readLog } from './read-log.ts';

const database = useTestDatabase();
beforeEach(() => emptyQueue(database.db));

const bytes = (text: string) => Buffer.from(text);

test('output comes back byte for byte, run after run, in pages', async () => {
  await fillQueue(database.db, 'a', 1);
  const [one] = await claimSome(database.db, 'a', 1);
  const binary = Buffer.from([0, 255, 27, 10, 92, 0]);
  expect(await appendLog(database.db, one!, [{ seq: 2, bytes: binary }])).toBe('stored');
  expect(await appendLog(database.db, one!, [{ seq: 1, bytes: bytes('first') }])).toBe('stored');
  await dispatcherFail(database.db, { claim: one!, error: 'x', retryInMs: 0 });
  await promoteDue(database.db, { limit: 1 });
  const [two] = await claimSome(database.db, 'a', 1);
  expect(await appendLog(database.db, two!, [{ seq: 1, bytes: bytes('again') }])).toBe('stored');
  const pages = [];
  for (;;) {
    const page = await readLog(database.db, { effectId: one!.effectId, after: pages.at(-1), limit: 2 });
    pages.push(...page);
    if (page.length < 2) break;
  }
  expect(
    pages.map(({ attempt, seq, bytes: stored }) => ({ attempt, seq, stored: Buffer.from(stored) })),
  ).toEqual([
    { attempt: 1, seq: 1, stored: bytes('first') },
    { attempt: 1, seq: 2, stored: binary },
    { attempt: 2, seq: 1, stored: bytes('again') },
  ]);
});

test('a repeated call stores nothing twice', async () => {
  await fillQueue(database.db, 'a', 1);
  const [claim] = await claimSome(database.db, 'a', 1);
  const chunks = [1, 2].map((seq) => ({ seq, bytes: bytes(`chunk ${seq}`) }));
  await appendLog(database.db, claim!, chunks);
  expect(await appendLog(database.db, claim!, [...chunks, { seq: 3, bytes: bytes('new') }])).toBe('stored');
  const stored = await readLog(database.db, { effectId: claim!.effectId });
  expect(stored.map((chunk) => chunk.seq)).toEqual([1, 2, 3]);
});

test('a call that is repeated while the first one waits is read once', async () => {
  await fillQueue(database.db, 'a', 1);
  const [claim] = await claimSome(database.db, 'a', 1);
  const append = () => appendLog(database.db, claim!, [{ seq: 1, bytes: bytes('once') }]);
  const calls = await database.db.transaction().execute(async (trx) => {
    await sql`lock table ${qualified('effect_log_default')} in share mode`.execute(trx);
    const both = [append(), append()];
    await vi.waitFor(
      async () => {
        const { rows } = await sql`select from pg_locks
          where database = (select oid from pg_database where datname = current_database())
            and not granted and locktype = 'relation'`.execute(database.db);
        expect(rows).toHaveLength(2);
      },
      { timeout: 8_000, interval: 10 },
    );
    return both;
  });
  expect(await Promise.all(calls)).toEqual(['stored', 'stored']);
  expect(await readLog(database.db, { effectId: claim!.effectId })).toHaveLength(1);
});

test('nothing is stored once the claim is closed', async () => {
  await fillQueue(database.db, 'a', 1);
  const [claim] = await claimSome(database.db, 'a', 1);
  expect(await appendLog(database.db, claim!, [])).toBe('stored');
  await dispatcherComplete(database.db, claim!);
  expect(await appendLog(database.db, claim!, [{ seq: 1, bytes: bytes('late') }])).toBe('stale');
  expect(await readLog(database.db, { effectId: claim!.effectId })).toEqual([]);
});

test('bad input is refused by name', async () => {
  await fillQueue(database.db, 'a', 1);
  const [claim] = await claimSome(database.db, 'a', 1);
  await expect(appendLog(database.db, claim!, [{ seq: 0, bytes: bytes('x') }])).rejects.toThrow(
    /^chunks\[0\]\.seq/,
  );
  const large = Buffer.alloc(1_048_577);
  await expect(appendLog(database.db, claim!, [{ seq: 1, bytes: large }])).rejects.toThrow(
    /^chunks\[0\]\.bytes/,
  );
});
