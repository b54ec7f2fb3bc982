import { table } from '@sluice/db';
import { commitFiles, defineEffect, gitIn, makeRepo } from '@sluice/testkit';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { usePusher } from './use-pusher.ts';

const pusher = usePusher();

const DEFINITION = 'on: [refs/heads/*]\nrun: make test\n';

test('a push is committed with its effect, and everybody sees it', async () => {
  const { url } = await pusher.start();
  const remote = `${url}/acme/api.git`;
  const work = await makeRepo(`${pusher.folder}/work`);
  const commit = await commitFiles(work, { 'a.txt': 'hello' });
  await defineEffect(work, 'test', DEFINITION);

  const pushed = await work.attempt(['push', remote, 'main', 'refs/meta/effects/test']);
  expect(pushed.stderr).toMatch(/remote: push [0-9a-f]{40}\s/);
  expect(pushed.stderr).toMatch(/remote: effect \d+ test for refs\/heads\/main: queued\s/);
  expect(pushed.code).toBe(0);

  const { db } = pusher.database;
  const refs = await db.selectFrom('ref').select(['name', 'oid']).orderBy('name').execute();
  expect(refs).toEqual([
    { name: 'refs/heads/main', oid: commit },
    { name: 'refs/meta/effects/test', oid: expect.any(String) },
  ]);
  const effects = await db
    .selectFrom('effect_queue')
    .select(['name', 'repo_id', 'push_id', 'payload'])
    .execute();
  expect(effects).toHaveLength(1);
  const record = await db.selectFrom('op_record').select('push_id').executeTakeFirstOrThrow();
  expect(effects[0]).toMatchObject({ name: 'test', repo_id: 'acme/api', push_id: record.push_id });
  expect(JSON.parse(effects[0]!.payload)).toMatchObject({
    source: { commit },
    trigger: { ref: 'refs/heads/main' },
  });

  const clone = `${pusher.folder}/clone`;
  await gitIn(pusher.folder)(['clone', '--quiet', remote, clone]);
  expect(await gitIn(clone)(['rev-parse', 'HEAD'])).toBe(commit);
  expect(await gitIn(clone)(['status', '--short', '--branch'])).toBe('## main...origin/main');
});

test.each([
  ['off', 'on'],
  ['remote_apply', 'remote_apply'],
])('synchronous_commit %s of the operator is %s for a push', async (theirs, ours) => {
  const { db } = pusher.database;
  await sql`create or replace function note_durability() returns trigger language plpgsql as
    $$ begin new.signer := current_setting('synchronous_commit'); return new; end $$`.execute(db);
  await sql`create or replace trigger durability before insert on ${table('op_record')}
    for each row execute function note_durability()`.execute(db);
  const url = `${pusher.database.url}?options=-c%20synchronous_commit%3D${theirs}`;
  const running = await pusher.start({ DATABASE_URL: url });
  const work = await makeRepo(`${pusher.folder}/work`);
  await commitFiles(work, { 'a.txt': theirs });
  await work(['push', '--quiet', `${running.url}/durable/${theirs}.git`, 'main']);
  const record = await db
    .selectFrom('op_record')
    .select('signer')
    .where('repo_id', '=', `durable/${theirs}`)
    .executeTakeFirstOrThrow();
  expect(record.signer).toBe(ours);
  await sql`drop trigger durability on ${table('op_record')}`.execute(db);
});
