import { createPool, sluice, type DB } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { Kysely, PostgresDialect } from 'kysely';
import { afterEach, expect, test } from 'vitest';
import { hearInProcess } from './dispatcher.ts';
import { enqueueEffect, enqueueEffects } from './repo.ts';

const database = useTestDatabase();
let heard: string[] = [];
const deafen: (() => void)[] = [];
afterEach(() => {
  for (const end of deafen.splice(0)) end();
  heard = [];
});

function hear(db: Kysely<DB>): void {
  const onEnqueued = (repoId: string, effectId: bigint) => heard.push(`${repoId} ${effectId}`);
  deafen.push(hearInProcess(db, { id: undefined, onEnqueued }));
}

test('it hears of each repo with work once, by the oldest effect, after the commit', async () => {
  const { db } = database;
  hear(db);
  const alone = await enqueueEffect(db, { repoId: 'a', payload: '' });
  const batch = await enqueueEffects(db, [
    { repoId: 'b', payload: 'later', delayMs: 60_000 },
    { repoId: 'c', payload: '' },
    { repoId: 'b', payload: '' },
    { repoId: 'c', payload: 'newer' },
    { repoId: 'd', payload: 'tomorrow', runAt: new Date(Date.now() + 86_400_000) },
  ]);
  await new Promise(setImmediate);
  expect(heard).toEqual([`a ${alone}`, `c ${batch[1]!.effectId}`, `b ${batch[2]!.effectId}`]);
});

test('it hears of nothing that was not enqueued now: duplicates, skipped ones, what is refused or in a transaction', async () => {
  const { db } = database;
  await db.insertInto('repo').values({ repo_id: 'full', max_queued: 0 }).execute();
  await enqueueEffect(db, { repoId: 'e', payload: '', dedupKey: 'k' });
  hear(db);
  await enqueueEffect(db, { repoId: 'e', payload: '', dedupKey: 'k' });
  await enqueueEffects(db, [{ repoId: 'full', payload: '' }]);
  await expect(enqueueEffect(db, { repoId: 'full', payload: '' })).rejects.toThrow('max_queued');
  await db.transaction().execute((trx) => enqueueEffect(trx, { repoId: 'e', payload: '' }));
  await new Promise(setImmediate);
  expect(heard).toEqual([]);
});

test('it hears nothing after its end, and nothing of other pools', async () => {
  const { db } = database;
  const dialect = new PostgresDialect({
    pool: createPool({ connectionString: database.url, applicationName: 'own' }),
  });
  await using own = sluice(new Kysely<DB>({ dialect }));
  hear(own);
  hear(db);
  deafen.pop()!();
  await enqueueEffect(db, { repoId: 'f', payload: '' });
  await enqueueEffect(own, { repoId: 'f', payload: '' });
  await new Promise(setImmediate);
  expect(heard).toEqual([]);
});
