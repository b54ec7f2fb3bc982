import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Logger } from '@sluice/service-kit';
import { useTempFolder } from '@sluice/testkit';
import { beforeEach, expect, test, vi } from 'vitest';
import type { RefCheck } from './find-lost-refs.ts';
import { maintenanceLock, markMaintained } from './maintenance-marks.ts';
import { ObjectGuard } from './object-guard.ts';

const temporary = useTempFolder();
const MAIN = { name: 'refs/heads/main', oid: '4'.repeat(40) };
const WHOLE: RefCheck = { refs: 3, lost: 0, example: null };
const LOST: RefCheck = { refs: 3, lost: 2, example: MAIN };
const pack = (digit: string): string => `pack-${digit.repeat(40)}`;

let now = 0;
let found: RefCheck = WHOLE;
let checks = 0;
let gap: string | null = null;
let walks = 0;
let counts: number[] = [];
let events: { event: string }[] = [];
let folder = '';

beforeEach(() => {
  now = 0;
  found = WHOLE;
  checks = 0;
  gap = null;
  walks = 0;
  counts = [];
  events = [];
  folder = join(temporary.path, 'repos/ab/abc.sha1.git');
  mkdirSync(join(folder, 'objects/pack'), { recursive: true });
  addPack('a');
});

const addPack = (digit: string): void => writeFileSync(join(folder, `objects/pack/${pack(digit)}.idx`), '');
const removePack = (digit: string): void => rmSync(join(folder, `objects/pack/${pack(digit)}.idx`));

function makeGuard(): ObjectGuard {
  const write = (event: { event: string }): void => void events.push(event);
  const log: Logger = { debug: write, info: write, warn: write, error: write };
  return new ObjectGuard({
    dataDir: temporary.path,
    log,
    check: () => {
      checks += 1;
      return Promise.resolve(found);
    },
    walk: () => {
      walks += 1;
      return Promise.resolve(gap);
    },
    onCount: (count) => counts.push(count),
    now: () => now,
  });
}

test('a whole repository is looked at once, and again when a pack is gone, when git stumbled and after ten minutes', async () => {
  const guard = makeGuard();
  const judge = () => guard.judge('acme/api', folder);
  expect([await judge(), await judge(), checks]).toEqual([null, null, 1]);
  addPack('b');
  expect([await judge(), checks]).toEqual([null, 1]);
  removePack('a');
  expect([await judge(), checks]).toEqual([null, 2]);
  await guard.suspect('acme/api', folder);
  // Not for every client that asks for what never was.
  expect([await judge(), checks]).toEqual([null, 2]);
  now += 10_000;
  await guard.suspect('acme/api', folder);
  expect([await judge(), checks]).toEqual([null, 3]);
  now += 599_999;
  expect([await judge(), checks]).toEqual([null, 3]);
  now += 1;
  expect(await judge()).toBeNull();
  await vi.waitFor(() => expect(checks).toBe(4));
  rmSync(folder, { recursive: true });
  expect([await judge(), checks]).toEqual([null, 5]);
});

test('who lacks objects is looked at again every two seconds, however many ask, until they are there', async () => {
  const guard = makeGuard();
  found = LOST;
  const loss = await guard.judge('acme/api', folder);
  expect(loss).toBe(
    "acme/api is withheld: 2 of its 3 refs name objects that are not on this server's disk, such as refs/heads/main 444444444444. The refs are safe in the database. Bring repos/ab/abc.sha1.git of the data folder back from a backup or a clone (docs/operating.md); from then on it is served again",
  );
  found = WHOLE;
  now += 1_999;
  expect([await guard.judge('acme/api', folder), checks]).toEqual([loss, 1]);
  await expect(guard.require('acme/api', folder)).rejects.toMatchObject({ status: 503, message: loss });
  now += 1;
  const asked = await Promise.all(Array.from({ length: 20 }, () => guard.judge('acme/api', folder)));
  expect([new Set(asked), checks]).toEqual([new Set([null]), 2]);
  expect(events).toEqual([
    { event: 'objects_lost', repo_id: 'acme/api', refs: 3, lost: 2, example: MAIN, gap: null },
    { event: 'objects_back', repo_id: 'acme/api', refs: 3 },
  ]);
  expect(counts).toEqual([1, 0]);
});

test('a failed check lets nobody pass, and is made again', async () => {
  let isBroken = true;
  const guard = new ObjectGuard({
    dataDir: temporary.path,
    log: { debug() {}, info() {}, warn() {}, error() {} },
    walk: () => Promise.resolve(null),
    check: () => (isBroken ? Promise.reject(new Error('no database')) : Promise.resolve(WHOLE)),
    onCount: () => {},
  });
  await expect(guard.judge('acme/api', folder)).rejects.toThrow('no database');
  isBroken = false;
  expect(await guard.judge('acme/api', folder)).toBeNull();
});

test('of a disk that loses everything, a hundred repositories are logged and all are counted', async () => {
  const guard = makeGuard();
  found = LOST;
  for (let n = 0; n < 150; n += 1) await guard.judge(`acme/${n}`, folder);
  expect(events).toHaveLength(100);
  expect(counts.at(-1)).toBe(150);
  expect([guard.isWithheld('acme/149'), guard.isWithheld('acme/150')]).toEqual([true, false]);
});

const WITHHELD =
  "acme/api is withheld: what its refs reach is not whole on this server's disk, missing blob object 'x'. The refs are safe in the database.";

test('where git stumbles, everything that refs reach is walked through: what is missing there withholds a repository too', async () => {
  const guard = makeGuard();
  const judge = () => guard.judge('acme/api', folder);
  expect(await judge()).toBeNull();
  now += 10_000;
  gap = "missing blob object 'x'";
  await guard.suspect('acme/api', folder);
  await vi.waitFor(() => expect(counts).toEqual([1]));
  expect(await judge()).toContain(WITHHELD);
  expect(events).toEqual([
    {
      event: 'objects_lost',
      repo_id: 'acme/api',
      refs: 3,
      lost: 0,
      example: null,
      gap: "missing blob object 'x'",
    },
  ]);
  // Walked again when there is another pack, and else within a minute.
  gap = null;
  now += 2_000;
  expect([await judge(), walks]).toEqual([expect.stringContaining(WITHHELD), 1]);
  addPack('b');
  now += 2_000;
  await judge();
  await vi.waitFor(() => expect(counts).toEqual([1, 0]));
  expect([await judge(), walks]).toEqual([null, 2]);
});

test('a pack that maintenance took is no reason to walk, another one is', async () => {
  const guard = makeGuard();
  const judge = () => guard.judge('acme/api', folder);
  await judge();
  addPack('b');
  await judge();
  await markMaintained(folder);
  removePack('a');
  expect([await judge(), checks, walks]).toEqual([null, 2, 0]);
  addPack('c');
  await judge();
  writeFileSync(maintenanceLock(folder), '');
  removePack('b');
  expect([await judge(), checks, walks]).toEqual([null, 3, 0]);
  rmSync(maintenanceLock(folder));
  removePack('c');
  expect([await judge(), checks, walks]).toEqual([null, 4, 0]);
  addPack('d');
  await judge();
  removePack('d');
  expect([await judge(), checks, walks]).toEqual([null, 5, 1]);
});

test('of walks that reasons ask for, one is under way at a time, and none begins after the end', async () => {
  let isUnderWay = false;
  const walked: string[] = [];
  const gate = Promise.withResolvers<void>();
  const guard = new ObjectGuard({
    dataDir: temporary.path,
    log: { debug() {}, info() {}, warn() {}, error() {} },
    check: () => Promise.resolve(WHOLE),
    walk: async (repoId, _, signal) => {
      expect(isUnderWay).toBe(false);
      isUnderWay = true;
      walked.push(repoId);
      await gate.promise;
      isUnderWay = false;
      signal.throwIfAborted();
      return null;
    },
    onCount: () => {},
  });
  for (const repoId of ['a', 'b', 'c']) await guard.suspect(repoId, folder);
  expect(walked).toEqual(['a']);
  const stopped = guard.stop();
  gate.resolve();
  await stopped;
  await guard.suspect('d', folder);
  expect(walked).toEqual(['a']);
});

test('of checks for many repositories two are under way at once, and one that fails makes room for the next', async () => {
  const begun: PromiseWithResolvers<RefCheck>[] = [];
  const guard = new ObjectGuard({
    dataDir: temporary.path,
    log: { debug() {}, info() {}, warn() {}, error() {} },
    walk: () => Promise.resolve(null),
    check: () => {
      const check = Promise.withResolvers<RefCheck>();
      begun.push(check);
      return check.promise;
    },
    onCount: () => {},
  });
  const judged = Promise.allSettled(['a', 'b', 'c', 'd'].map((repoId) => guard.judge(repoId, folder)));
  await vi.waitFor(() => expect(begun).toHaveLength(2));
  begun[0]!.reject(new Error('no database'));
  await vi.waitFor(() => expect(begun).toHaveLength(3));
  begun[2]!.resolve(WHOLE);
  await vi.waitFor(() => expect(begun).toHaveLength(4));
  for (const check of begun) check.resolve(WHOLE);
  expect((await judged).map(({ status }) => status)).toEqual([
    'rejected',
    'fulfilled',
    'fulfilled',
    'fulfilled',
  ]);
});
