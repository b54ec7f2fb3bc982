import { createPool, sluice, type DB } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { Kysely, PostgresDialect } from 'kysely';
import { beforeAll, describe, expect, test } from 'vitest';
import {
  findPush,
  hashObject,
  iteratePushes,
  iterateRepos,
  readKeptOids,
  readObjects,
  readRefsSince,
  readRepo,
  readServerKeys,
  registerServerKey,
  retireServerKey,
  verifyLog,
  type ServerKey,
} from '../src/index.ts';
import { newKey, oid, push } from './push-fixture.ts';

const database = useTestDatabase();
const REPO = 'acme/api';
let key: ServerKey;

type Parse = (text: string) => unknown;
const [BYTEA, INT8, TEXTS, TIMESTAMPTZ, JSONB] = [17, 20, 1009, 1184, 3802] as const;

/** A program's own instance, whose pool parses values of these types as it likes. */
function callersKysely(parsers: Record<number, Parse>): Kysely<DB> {
  const pool = createPool({ connectionString: database.url, applicationName: 'caller' });
  const options = pool.options as unknown as {
    types: { getTypeParser: (oid: number, format?: string) => Parse };
  };
  const { getTypeParser } = options.types;
  options.types = { getTypeParser: (type, format) => parsers[type] ?? getTypeParser(type, format) };
  return sluice(new Kysely<DB>({ dialect: new PostgresDialect({ pool }) }));
}

const CALLERS: Record<string, () => Kysely<DB>> = {
  'with bigint as number and times as text': () => callersKysely({ [INT8]: Number, [TIMESTAMPTZ]: String }),
  'with times as objects of a library, and nothing else parsed': () =>
    callersKysely({
      [INT8]: String,
      [TIMESTAMPTZ]: (iso) => ({ iso }),
      [BYTEA]: String,
      [TEXTS]: String,
      [JSONB]: String,
    }),
};

async function all<T>(rows: AsyncIterable<T>): Promise<T[]> {
  const got: T[] = [];
  for await (const row of rows) got.push(row);
  return got;
}

/** Everything that can be read, by the names of the functions. */
async function everything(db: Kysely<DB>): Promise<Record<string, unknown>> {
  const pushes = await all(iteratePushes(db, { repoId: REPO }));
  const trustedKeys = await readServerKeys(db);
  const [first] = pushes;
  const since = { refsVersion: 1n, opTip: first!.pushId };
  const objects = await readObjects(db, { repoId: REPO, oids: [first!.pushId] });
  return {
    readRepo: await readRepo(db, REPO),
    iterateRepos: await all(iterateRepos(db)),
    iteratePushes: pushes,
    findPush: await findPush(db, { repoId: REPO, pushId: first!.pushId }),
    readRefsSince: await readRefsSince(db, { repoId: REPO, since, except: null }),
    readObjects: [...objects].map(([id, { kind, bytes }]) => [id, kind, [...bytes]]),
    readKeptOids: await readKeptOids(db, { repoId: REPO, keepDays: 1, oidsMax: 9 }),
    readServerKeys: trustedKeys,
    verifyLog: await verifyLog(db, { repoId: REPO, trustedKeys }),
  };
}

beforeAll(async () => {
  const { db } = database;
  key = await newKey();
  const retired = await newKey();
  await registerServerKey(db, retired);
  await retireServerKey(db, retired.fingerprint);
  await registerServerKey(db, key);
  // The order of twelve pushes is not that of their numbers as text.
  let current = 'absent';
  for (const digit of 'abcdef123456') {
    const edits = [{ name: 'refs/heads/a', expect: current, to: oid(digit) }];
    await push(db, { repoId: REPO, edits, key });
    current = oid(digit);
  }
});

describe.each(Object.entries(CALLERS))("a caller's own pool, %s", (_, open) => {
  test('answers as ours does', async () => {
    await using db = open();
    const ours = await everything(database.db);
    expect(ours['verifyLog']).toEqual({ records: 12, problems: [] });
    expect(ours['readRepo']).toMatchObject({ opSeq: 12n, refsVersion: 12n });
    expect((ours['readObjects'] as unknown[]).length).toBe(1);
    expect(await everything(db)).toEqual(ours);
  });

  test('writes as ours does', async () => {
    await using db = open();
    const repoId = 'acme/written';
    await database.db.deleteFrom('repo').where('repo_id', '=', repoId).execute();
    const edits = [{ name: 'refs/heads/a', expect: 'absent' as const, to: oid('a') }];
    const certificate = Buffer.from([0, 92, 255]);
    const certOid = hashObject('sha1', 'blob', certificate);
    expect(await push(db, { repoId, edits, key, certificate })).toMatchObject({
      status: 'committed',
      seq: 1n,
      refsVersion: 1n,
    });
    expect((await readObjects(db, { repoId, oids: [certOid] })).get(certOid)).toEqual({
      kind: 'blob',
      bytes: certificate,
    });
    const other = await newKey();
    await registerServerKey(db, other);
    expect(await retireServerKey(db, other.fingerprint)).toBe(true);
    await expect(registerServerKey(db, other)).rejects.toMatchObject({ code: 'server_key_unusable' });
  });
});
