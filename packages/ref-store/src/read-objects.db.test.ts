import { table } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { beforeAll, expect, test } from 'vitest';
import { hashObject } from './hash-object.ts';
import { lockRepo } from './lock-repo.ts';
import type { ObjectFormat } from './oid.ts';
import { readObjects, type SmallObject } from './read-objects.ts';

const database = useTestDatabase();
const repoId = 'objects/a';
beforeAll(async () => {
  await database.db.transaction().execute(async (trx) => {
    await lockRepo(trx, { repoId, create: { objectFormat: 'sha1' } });
    await lockRepo(trx, { repoId: 'objects/256', create: { objectFormat: 'sha256' } });
  });
});

const blob = (text: string): SmallObject => ({ kind: 'blob', bytes: Buffer.from(text) });

async function store(repo: string, format: ObjectFormat, ...objects: SmallObject[]): Promise<string[]> {
  const rows = objects.map(({ kind, bytes }) => ({
    repo_id: repo,
    oid: hashObject(format, kind, bytes),
    kind,
    bytes: Buffer.from(bytes),
  }));
  await database.db.insertInto('small_object').values(rows).execute();
  return rows.map(({ oid }) => oid);
}

test('objects have the ids git gives them and come back byte by byte', async () => {
  const everyByte = {
    kind: 'blob',
    bytes: Buffer.from(Array.from({ length: 256 }, (_, value) => value)),
  } as const;
  const objects = [everyByte, blob(''), { kind: 'tree', bytes: Buffer.alloc(0) } as const];
  const oids = await store(repoId, 'sha1', ...objects);
  expect(oids).toEqual([
    'c86626638e0bc8cf47ca49bb1525b40e9737ee64',
    'e69de29bb2d1d6434b8b29ae775ad8c2e48c5391',
    '4b825dc642cb6eb9a060e54bf8d69288fbee4904',
  ]);
  const read = await readObjects(database.db, { repoId, oids: [...oids, 'f'.repeat(40)] });
  expect(read).toEqual(new Map(oids.map((oid, index) => [oid, objects[index]!])));
  const [oid256] = await store('objects/256', 'sha256', blob(''));
  expect(oid256).toBe('473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813');
  expect((await readObjects(database.db, { repoId: 'objects/256', oids: [oid256!] })).size).toBe(1);
  expect((await readObjects(database.db, { repoId, oids: [oid256!] })).size).toBe(0);
});

test('what is damaged is not returned', async () => {
  const [oid] = await store(repoId, 'sha1', blob('damaged'));
  await sql`update ${table('small_object')} set bytes = 'x' where oid = ${oid}`.execute(database.db);
  expect((await readObjects(database.db, { repoId, oids: [oid!] })).size).toBe(0);
});
