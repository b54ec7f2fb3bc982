import { join } from 'node:path';
import { createDatabase, migrate, type DB } from '@sluice/db';
import { startLocalPostgres, type LocalPostgres } from '@sluice/local-postgres';
import { commitFiles, defineEffect, makeRepo, startTcpProxy } from '@sluice/testkit';
import type { Kysely } from 'kysely';
import { afterEach, expect, test, vi } from 'vitest';
import { onBranches } from './support/definition.ts';
import { sampleInvariants } from './support/sample-invariants.ts';
import { until } from './support/until.ts';
import { useSystem } from './support/use-system.ts';

vi.setConfig({ testTimeout: 300_000 });
const database = { url: '' };
const system = useSystem(database);
const open: Kysely<DB>[] = [];
let server: LocalPostgres | undefined;
afterEach(async () => {
  await Promise.all(open.splice(0).map((db) => db.destroy()));
  await server?.stop();
});

function connect(url: string): Kysely<DB> {
  const db = createDatabase({ connectionString: url, applicationName: 'test' });
  open.push(db);
  return db;
}

const PEOPLE = 6;
const PUSHES_EACH = 3;
const RESTARTS = 2;

test('the database is restarted under load: everything accepted is run, by itself', async () => {
  const dataDir = join(system.folder, 'postgres');
  server = await startLocalPostgres({ dataDir });
  const target = { host: '127.0.0.1', port: server.port };
  await using proxy = await startTcpProxy(target);
  database.url = proxy.through(server.url);
  await migrate(connect(server.url));
  const pusher = await system.startPusher();
  await Promise.all([
    system.startDispatcher({ pusherUrl: pusher.url, env: { SLUICE_LEASE_MS: '5000' } }),
    system.startDispatcher({ pusherUrl: pusher.url, env: { SLUICE_LEASE_MS: '5000' } }),
  ]);
  const remote = `${pusher.url}/restart.git`;
  const setUp = await makeRepo(join(system.folder, 'set-up'));
  await defineEffect(setUp, 'ci', onBranches('echo "$SLUICE_REF"', { dedup: 'push', maxAttempts: 50 }));
  await setUp(['push', '--quiet', remote, 'refs/meta/effects/ci']);

  let accepted = 0;
  const pushing = Promise.all(
    Array.from({ length: PEOPLE }, async (_, person) => {
      const work = await makeRepo(join(system.folder, `person-${person}`));
      for (let round = 0; round < PUSHES_EACH; round += 1) {
        await commitFiles(work, { 'a.txt': `${person} ${round}` });
        await until(
          'the push is accepted',
          async () => (await work.attempt(['push', remote, `main:p${person}`])).code === 0,
        );
        accepted += 1;
      }
    }),
  );
  for (let restart = 1; restart <= RESTARTS; restart += 1) {
    await until('some pushes are accepted', () => accepted >= restart * PEOPLE);
    await server.stop();
    server = await startLocalPostgres({ dataDir });
    target.port = server.port;
  }
  await pushing;

  const db = connect(server.url);
  await until('every effect is finished', async () => {
    const { waiting } = await db
      .selectFrom('effect_queue')
      .select((eb) => eb.fn.countAll<bigint>().as('waiting'))
      .executeTakeFirstOrThrow();
    return waiting === 0n;
  });
  const sampler = sampleInvariants(db, { cap: 4 });
  expect((await sampler.stop()).violations).toEqual([]);
  const history = await db.selectFrom('effect_history').select(['effect_id', 'outcome']).execute();
  // A push whose answer was lost in a restart was accepted all the same: its branch moved once.
  expect(history).toHaveLength(PEOPLE * PUSHES_EACH);
  expect(history.filter(({ outcome }) => outcome !== 'pass')).toEqual([]);
});
