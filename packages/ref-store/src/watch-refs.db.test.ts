import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { newKey, oid, push } from '../test/push-fixture.ts';
import { watchRefs } from './watch-refs.ts';

const database = useTestDatabase();

test('a push is told to those who watch, also after their connection was lost; a refused one is not', async () => {
  const { db, url } = database;
  const key = await newKey();
  const changed: string[] = [];
  let ready = 0;
  await using _watch = watchRefs({
    connectionString: url,
    onChange: (repoId) => changed.push(repoId),
    onReady: () => ready++,
  });
  await expect.poll(() => ready, { timeout: 20_000 }).toBe(1);
  await push(db, { repoId: 'watch/a', key, edits: [{ name: 'refs/heads/main', expect: 'any', to: oid(1) }] });
  await push(db, {
    repoId: 'watch/a',
    key,
    edits: [{ name: 'refs/heads/main', expect: 'absent', to: oid(2) }],
  });
  await push(db, { repoId: 'watch/b', key, edits: [{ name: 'refs/heads/main', expect: 'any', to: oid(1) }] });
  await expect.poll(() => changed, { timeout: 20_000 }).toEqual(['watch/a', 'watch/b']);
  await sql`select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and application_name = 'sluice-listen'`.execute(db);
  await expect.poll(() => ready, { timeout: 20_000 }).toBe(2);
  await push(db, { repoId: 'watch/c', key, edits: [{ name: 'refs/heads/main', expect: 'any', to: oid(1) }] });
  await expect.poll(() => changed.at(-1), { timeout: 20_000 }).toBe('watch/c');
});
