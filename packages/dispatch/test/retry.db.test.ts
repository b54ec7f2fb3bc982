import { useTestDatabase } from '@sluice/testkit';
import { expect, test } from 'vitest';
import type { RunResult } from '../src/index.ts';
import { enqueue, PASS, useDispatchers } from './dispatchers.ts';
import { until } from './until.ts';

const database = useTestDatabase();
const start = useDispatchers(database);

test('an error is retried with back-off, and the effect is dead after its last attempt', async () => {
  const { db } = database;
  await enqueue(db, ['a'], 1, { maxAttempts: 3 });
  const attempts: number[] = [];
  const dispatcher = await start(async ({ attempt }) => {
    attempts.push(attempt);
    return await Promise.resolve({ status: 'error', message: `no sandbox ${attempt}` });
  });
  await until('it is dead', () => dispatcher.stats.dead === 1);
  expect(attempts).toEqual([1, 2, 3]);
  expect(dispatcher.of('effect_ended').map(({ how }) => how)).toEqual(['scheduled', 'scheduled', 'dead']);
  const row = await db
    .selectFrom('effect_history')
    .select(['state', 'outcome', 'attempts', 'reason'])
    .executeTakeFirst();
  expect(row).toMatchObject({
    state: 'dead',
    outcome: null,
    attempts: 3,
    reason: expect.stringContaining('no sandbox 3'),
  });
});

test('what a run throws is an error, with a text that can be stored', async () => {
  const { db } = database;
  await enqueue(db, ['a'], 1);
  const dispatcher = await start(({ attempt }) => {
    if (attempt === 1) throw new Error('broken \0 \ud800 text');
    return Promise.resolve(PASS);
  });
  await until('the second attempt is done', () => dispatcher.stats.completed === 1);
  expect(dispatcher.stats.retried).toBe(1);
});

test('whatever a run throws becomes the reason', async () => {
  const { db } = database;
  await enqueue(db, ['a'], 4, { maxAttempts: 1 });
  const thrown: unknown[] = [new Error(''), { code: 5 }, Object.create(null), undefined];
  const dispatcher = await start(() => {
    throw thrown.shift();
  });
  await until('all are dead', () => dispatcher.stats.dead === 4);
  const rows = await db.selectFrom('effect_history').select('reason').orderBy('effect_id').execute();
  expect(rows.map(({ reason }) => reason)).toEqual([
    'an error without a message',
    '{ code: 5 }',
    '[Object: null prototype] {}',
    'undefined',
  ]);
});

test('a poison payload is dead at once', async () => {
  const { db } = database;
  await enqueue(db, ['a'], 1, { maxAttempts: 5 });
  const dispatcher = await start(() => Promise.resolve({ status: 'poison', message: 'not a work order' }));
  await dispatcher.idle();
  const row = await db
    .selectFrom('effect_history')
    .select(['state', 'attempts', 'reason'])
    .executeTakeFirst();
  expect(row).toMatchObject({
    state: 'dead',
    attempts: 1,
    reason: expect.stringContaining('not a work order'),
  });
});

test('a completion that cannot be stored holds up no other and is not lost in silence', async () => {
  const { db } = database;
  await enqueue(db, ['bad'], 1, { maxAttempts: 1 });
  await enqueue(db, ['good'], 5);
  const dispatcher = await start(async ({ repoId }) => {
    const resultRef = repoId === 'bad' ? 'refs/\0' : 'refs/meta/results/x/1';
    return await Promise.resolve({ status: 'done', outcome: 'pass', resultRef });
  });
  await dispatcher.idle();
  const rows = await db
    .selectFrom('effect_history')
    .select(['repo_id', 'state'])
    .orderBy('repo_id')
    .execute();
  expect(rows.map(({ repo_id, state }) => `${repo_id} ${state}`)).toEqual([
    'bad dead',
    ...Array(5).fill('good done'),
  ]);
  expect(dispatcher.of('completion_refused')).toHaveLength(1);
});

test.each([
  ['no reason', '', null],
  ['a reason of blanks', ' \n', null],
  ['a reason of 10,200 bytes', '試'.repeat(3_400), `${'試'.repeat(1_992)} … (cut)`],
  [
    'a reason that would be cut within a character',
    `${'x'.repeat(1_991)}😀${'y'.repeat(5_000)}`,
    `${'x'.repeat(1_991)} … (cut)`,
  ],
])('%s keeps no passing effect from being done', async (_, reason, stored) => {
  const { db } = database;
  await enqueue(db, ['a'], 1);
  const dispatcher = await start(() => Promise.resolve({ status: 'done', outcome: 'pass', reason }));
  await dispatcher.idle();
  const rows = await db
    .selectFrom('effect_history')
    .select(['state', 'outcome', 'attempts', 'reason'])
    .execute();
  expect(rows).toEqual([{ state: 'done', outcome: 'pass', attempts: 1, reason: stored }]);
});

test("failing effects do not keep a repo's other effects waiting", async () => {
  const { db } = database;
  await enqueue(db, ['a'], 10, { name: 'bad', maxAttempts: 10 });
  await enqueue(db, ['a'], 10, { name: 'good' });
  const dispatcher = await start(
    async ({ name }) => await Promise.resolve(name === 'good' ? PASS : { status: 'error', message: 'again' }),
    // Ten attempts take half a minute at least.
    { retryMinMs: 1_000, retryMaxMs: 10_000 },
  );
  await until('all good ones are done', () => dispatcher.stats.completed === 10);
  expect(dispatcher.stats.dead).toBe(0);
});

test('a run that returns no result is an error that says so', async () => {
  const { db } = database;
  await enqueue(db, ['a'], 2, { maxAttempts: 1 });
  // What a program without types may do.
  const given: unknown[] = [undefined, { status: 'error' }];
  const dispatcher = await start(() => Promise.resolve(given.shift() as RunResult));
  await until('both are dead', () => dispatcher.stats.dead === 2);
  const rows = await db.selectFrom('effect_history').select('reason').orderBy('effect_id').execute();
  expect(rows.map(({ reason }) => reason!.replace(/.*, got /, ''))).toEqual([
    'undefined. Return one on every path.',
    "{ status: 'error' }. Return one on every path.",
  ]);
});
