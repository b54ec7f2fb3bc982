import { afterEach, expect, test, vi } from 'vitest';
import { BinaryHeap } from './binary-heap.ts';
import { FairScheduler } from './fair-scheduler.ts';
import { RepoHeap } from './repo-heap.ts';

const enters = vi.spyOn(RepoHeap.prototype, 'enter');
afterEach(() => enters.mockClear());

/** Entries of all heaps that a repo entered. */
function entries(): number {
  const heaps = new Set(enters.mock.contexts as RepoHeap[]);
  return [...heaps].reduce((sum, heap) => sum + heap.size, 0);
}

const DAYS = 20_000;
const BOUND = 300;

test('repos that come and go while every slot is taken for days leave no trail', () => {
  const scheduler = new FairScheduler({ defaultCap: 4 });
  // What waits for a slot stands in front of everything that comes later.
  scheduler.hint('waits');
  for (let day = 0; day < DAYS; day += 1) {
    // An effect of a paused repo is announced, and the next sweep finds it paused.
    scheduler.hint('paused');
    scheduler.withdraw('paused');
  }
  expect(entries()).toBeLessThan(BOUND);
});

test('a repo that was just served and has nothing more, however often it is announced, leaves no trail', () => {
  const scheduler = new FairScheduler({ defaultCap: 8 });
  const got: Record<string, number> = { full: 0, soon: 1, paused: 4 };
  for (const repoId of Object.keys(got)) scheduler.hint(repoId);
  for (let round = 0; round < 3; round += 1) {
    for (const { repoId } of scheduler.plan(24))
      scheduler.settle({
        repoId,
        got: got[repoId]!,
        isBusy: false,
        isFull: repoId === 'full',
        hasMore: repoId === 'full',
      });
  }
  // While one repo is full and nothing is served, those that were stand in the order in which they will be forgotten.
  for (let day = 0; day < DAYS; day += 1) {
    scheduler.hint('paused');
    for (const { repoId } of scheduler.plan(4))
      scheduler.settle({ repoId, got: 0, isBusy: false, isFull: false, hasMore: false });
  }
  expect(entries()).toBeLessThan(BOUND);
});

test('what is dropped of a heap changes no order', () => {
  const heap = new BinaryHeap<number>((a, b) => a < b);
  for (let n = 0; n < 1_000; n += 1) heap.push((n * 7_919) % 1_000);
  heap.keep((item) => item % 3 === 0);
  const left: number[] = [];
  for (let item = heap.pop(); item !== undefined; item = heap.pop()) left.push(item);
  expect(left).toEqual(Array.from({ length: 334 }, (_, n) => 3 * n));
});
