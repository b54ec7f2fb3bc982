import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { useEmptyDatabase } from '@sluice/testkit';
import { expect, test } from 'vitest';

const database = useEmptyDatabase();
const db = fileURLToPath(new URL('../../db/src/index.ts', import.meta.url));
const queue = fileURLToPath(new URL('../src/repo.ts', import.meta.url));
const dispatcher = fileURLToPath(new URL('../src/dispatcher.ts', import.meta.url));

/** A process of its own: the name is fixed for the life of one. */
async function inSchema(schema: string): Promise<unknown> {
  const script = `
    const { createDatabase, migrate, assertMigrated } = await import(${JSON.stringify(db)});
    const { enqueueEffect, claimEffects, completeEffect } = await import(${JSON.stringify(queue)});
    const { fairClaim, dispatcherComplete } = await import(${JSON.stringify(dispatcher)});
    const db = createDatabase({ connectionString: process.env.URL, applicationName: 'child' });
    const applied = (await migrate(db)).length;
    const again = (await migrate(db)).length;
    await assertMigrated(db);
    await enqueueEffect(db, { repoId: 'a', payload: 'x', dedupKey: 'k' });
    const [claim] = await claimEffects(db, { repoId: 'a', claimedBy: 'w', limit: 1 });
    const ended = await completeEffect(db, claim);
    await enqueueEffect(db, { repoId: 'a', payload: 'x' });
    const turns = [{ repoId: 'a', want: 1 }];
    const { effects } = await fairClaim(db, { claimedBy: 'w', turns, defaultCap: 1 });
    const endedFairly = await dispatcherComplete(db, effects[0]);
    await db.destroy();
    console.log(JSON.stringify({ isNew: applied > 0, again, ended, endedFairly }));`;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', script], {
    env: { PATH: process.env['PATH'], URL: database.url, SLUICE_SCHEMA: schema },
    timeout: 60_000,
  });
  return JSON.parse(stdout);
}

test.each(['select', 'user', `s${'x'.repeat(62)}`])('a schema named %s is like any other', async (schema) => {
  expect(await inSchema(schema)).toEqual({
    isNew: true,
    again: 0,
    ended: 'completed',
    endedFairly: 'completed',
  });
});

test.each(['My-Queue', 'Queue', 'a"b', 'a b', `s${'x'.repeat(63)}`, 'pg_mine', '1a'])(
  'the name %j is refused at the start',
  async (schema) => {
    await expect(inSchema(schema)).rejects.toThrow('SLUICE_SCHEMA: expected a lower-case identifier');
  },
);
