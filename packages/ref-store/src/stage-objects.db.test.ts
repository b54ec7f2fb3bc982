import { table } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { beforeAll, expect, test } from 'vitest';
import { hashObject } from './hash-object.ts';
import { lockRepo } from './lock-repo.ts';
import { promoteObjects } from './promote-objects.ts';
import { readObjects, type SmallObject } from './read-objects.ts';
import { OBJECT_BYTES_MAX, stageObjects } from './stage-objects.ts';
import { sweepStaged } from './sweep-staged.ts';

const database = useTestDatabase();
const repoId = 'objects/a';
beforeAll(async () => {
  await database.db.transaction().execute(async (trx) => {
    await lockRepo(trx, { repoId, create: { objectFormat: 'sha1' } });
    await lockRepo(trx, { repoId: 'objects/256', create: { objectFormat: 'sha256' } });
  });
});

const blob = (text: string): SmallObject => ({ kind: 'blob', bytes: Buffer.from(text) });
const stage = (...objects: SmallObject[]) =>
  stageObjects(database.db, { repoId, objectFormat: 'sha1', objects });
const age = (oid: string) =>
  sql`update ${table('small_object')} set created_at = now() - interval '1 day' where oid = ${oid}`.execute(
    database.db,
  );
const promote = (oids: string[]) =>
  database.db.transaction().execute((trx) => promoteObjects(trx, { repoId, oids }));

test('objects have the ids git gives them and come back byte by byte', async () => {
  const everyByte = {
    kind: 'blob',
    bytes: Buffer.from(Array.from({ length: 256 }, (_, value) => value)),
  } as const;
  const objects = [everyByte, blob(''), everyByte, { kind: 'tree', bytes: Buffer.alloc(0) } as const];
  const oids = await stage(...objects);
  expect(oids).toEqual([
    'c86626638e0bc8cf47ca49bb1525b40e9737ee64',
    'e69de29bb2d1d6434b8b29ae775ad8c2e48c5391',
    'c86626638e0bc8cf47ca49bb1525b40e9737ee64',
    '4b825dc642cb6eb9a060e54bf8d69288fbee4904',
  ]);
  const read = await readObjects(database.db, { repoId, oids: [...oids, 'f'.repeat(40)] });
  expect(read).toEqual(new Map(oids.map((oid, index) => [oid, objects[index]!])));
  const [oid256] = await stageObjects(database.db, {
    repoId: 'objects/256',
    objectFormat: 'sha256',
    objects: [blob('')],
  });
  expect(oid256).toBe('473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813');
  expect((await readObjects(database.db, { repoId, oids: [oid256!] })).size).toBe(0);
});

test('what is damaged is not returned', async () => {
  const [oid] = await stage(blob('damaged'));
  await sql`update ${table('small_object')} set bytes = 'x' where oid = ${oid}`.execute(database.db);
  expect((await readObjects(database.db, { repoId, oids: [oid!] })).size).toBe(0);
});

test('an object that is too big is refused', async () => {
  const big = { kind: 'blob', bytes: Buffer.alloc(OBJECT_BYTES_MAX + 1) } as const;
  await expect(stage(big)).rejects.toMatchObject({ code: 'invalid_argument' });
  expect(await stage({ kind: 'blob', bytes: Buffer.alloc(OBJECT_BYTES_MAX) })).toHaveLength(1);
});

test('a sweep takes what is old and staged, not what is new or promoted', async () => {
  const [old, kept, fresh, again] = await stage(blob('old'), blob('kept'), blob('fresh'), blob('again'));
  for (const oid of [old!, kept!, again!]) await age(oid);
  expect(await promote([kept!, kept!])).toEqual([]);
  expect(await stage(blob('again'))).toEqual([again]);
  expect(await sweepStaged(database.db, { olderThanMs: 3_600_000 })).toBe(1);
  const left = await readObjects(database.db, { repoId, oids: [old!, kept!, fresh!, again!] });
  expect([...left.keys()].sort()).toEqual([kept!, fresh!, again!].sort());
});

test('promoting says what is not there', async () => {
  const [here] = await stage(blob('here'));
  const gone = hashObject('sha1', 'blob', Buffer.from('gone'));
  expect(await promote([here!, gone])).toEqual([gone]);
  expect(await promote([])).toEqual([]);
});

test('a sweep leaves alone what a push is promoting', async () => {
  const { db } = database;
  const [oid] = await stage(blob('promoted meanwhile'));
  await age(oid!);
  const trx = await db.startTransaction().execute();
  expect(await promoteObjects(trx, { repoId, oids: [oid!] })).toEqual([]);
  expect(await sweepStaged(db, { olderThanMs: 3_600_000 })).toBe(0);
  await trx.commit().execute();
  expect(await sweepStaged(db, { olderThanMs: 3_600_000 })).toBe(0);
  expect((await readObjects(db, { repoId, oids: [oid!] })).size).toBe(1);
});
