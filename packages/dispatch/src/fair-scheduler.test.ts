import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { FairScheduler, QUANTUM } from './fair-scheduler.ts';
import type { Turn } from './turn.ts';

/** A world for the scheduler: how much each repo has waiting, holds, and was served. */
class World {
  readonly scheduler: FairScheduler;
  readonly repos = new Map<
    string,
    { weight: number; cap: number; waiting: number; held: number; served: number }
  >();

  constructor(quantum: number) {
    this.scheduler = new FairScheduler({ defaultCap: 4, quantum });
  }

  add(repoId: string, waiting: number, weight = 1, cap = 1_000_000): void {
    const repo = this.repos.get(repoId);
    if (repo === undefined) this.repos.set(repoId, { weight, cap, waiting, held: 0, served: 0 });
    else repo.waiting += waiting;
    this.announce(repoId);
  }

  announce(repoId: string): void {
    const { weight, cap } = this.repos.get(repoId)!;
    this.scheduler.announce({ repoId, weight, cap });
  }

  /** One plan, granted in full, as far as there is work and room; `isBusy` says whose turn meets a lock. */
  step(slots: number, isBusy: (turn: Turn) => boolean = () => false): Turn[] {
    const turns = this.scheduler.plan(slots);
    for (const turn of turns) {
      const repo = this.repos.get(turn.repoId)!;
      const busy = isBusy(turn);
      const room = repo.cap - repo.held;
      const got = busy ? 0 : Math.min(turn.want, room, repo.waiting);
      repo.waiting -= got;
      repo.held += got;
      repo.served += got;
      this.scheduler.settle({
        repoId: turn.repoId,
        got,
        isBusy: busy,
        isFull: got >= room,
        hasMore: repo.waiting > 0,
      });
    }
    return turns;
  }

  finish(repoId: string): void {
    const repo = this.repos.get(repoId)!;
    if (repo.held === 0) return;
    repo.held -= 1;
    this.scheduler.release(repoId);
  }

  finishAll(): void {
    for (const [repoId, repo] of this.repos) while (repo.held > 0) this.finish(repoId);
  }

  share(repoId: string): number {
    const repo = this.repos.get(repoId)!;
    return repo.served / repo.weight;
  }
}

fc.configureGlobal({ seed: 7420 });

const ENDLESS = 1e9;
const quantum = fc.integer({ min: 1, max: 16 });
const weights = fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 2, maxLength: 6 });

describe('shares', () => {
  test('two repos that have work throughout stay within the bound over every interval, whatever else comes and goes', () => {
    const visit = fc.record({
      slots: fc.integer({ min: 1, max: 60 }),
      guest: fc.option(
        fc.record({
          id: fc.integer({ min: 0, max: 9 }),
          count: fc.integer({ min: 1, max: 30 }),
          weight: fc.integer({ min: 1, max: 50 }),
          cap: fc.integer({ min: 1, max: 8 }),
        }),
      ),
    });
    fc.assert(
      fc.property(
        quantum,
        weights,
        fc.array(visit, { minLength: 20, maxLength: 120 }),
        (q, weight, visits) => {
          const world = new World(q);
          const ids = weight.map((_, index) => `endless${index}`);
          ids.forEach((id, index) => world.add(id, ENDLESS, weight[index]));
          const history = visits.map(({ slots, guest }) => {
            if (guest !== null) world.add(`guest${guest.id}`, guest.count, guest.weight, guest.cap);
            world.step(slots);
            world.finishAll();
            return ids.map((id) => world.share(id));
          });
          for (const [i, a] of weight.entries()) {
            for (const [j, b] of weight.entries()) {
              const gaps = history.map((shares) => shares[i]! - shares[j]!);
              expect(Math.max(0, ...gaps) - Math.min(0, ...gaps)).toBeLessThanOrEqual(q / a + q / b + 1e-9);
            }
          }
        },
      ),
    );
  });

  test('claims that have room for several quanta of each repo leave a difference of one effect each', () => {
    fc.assert(
      fc.property(
        quantum,
        weights,
        fc.array(fc.nat(50), { minLength: 5, maxLength: 30 }),
        (q, weight, extra) => {
          const world = new World(q);
          weight.forEach((w, index) => world.add(`r${index}`, ENDLESS, w));
          // A guess of what a repo has waiting doubles with each turn until it is a quantum.
          for (let turn = 1; turn < q; turn *= 2) world.step(q * weight.length);
          const enough = (3 * q * weight.reduce((sum, w) => sum + w)) / Math.min(...weight);
          for (const more of extra) {
            world.step(Math.ceil(enough) + more);
            world.finishAll();
            for (const [i, a] of weight.entries()) {
              for (const [j, b] of weight.entries())
                expect(Math.abs(world.share(`r${i}`) - world.share(`r${j}`))).toBeLessThanOrEqual(
                  1 / a + 1 / b + 1e-9,
                );
            }
          }
        },
      ),
    );
  });

  test('a plan fills the slots as far as there is room, and never plans beyond a cap', () => {
    const repo = fc.record({
      waiting: fc.integer({ min: 1, max: 40 }),
      weight: fc.integer({ min: 1, max: 9 }),
      cap: fc.integer({ min: 1, max: 6 }),
    });
    fc.assert(
      fc.property(
        quantum,
        fc.array(repo, { minLength: 1, maxLength: 12 }),
        fc.array(fc.nat(40), { maxLength: 40 }),
        (q, repos, steps) => {
          const world = new World(q);
          repos.forEach(({ waiting, weight, cap }, index) => world.add(`r${index}`, waiting, weight, cap));
          for (const slots of steps) {
            const turns = world.scheduler.plan(slots);
            const room = [...world.repos.values()]
              .map((r) => (r.waiting > 0 ? r.cap - r.held : 0))
              .reduce((a, b) => a + b, 0);
            const planned = turns.reduce((sum, turn) => sum + turn.want, 0);
            expect(planned).toBeLessThanOrEqual(slots);
            expect(planned).toBeGreaterThanOrEqual(Math.min(slots, room));
            for (const turn of turns) {
              const of = world.repos.get(turn.repoId)!;
              expect(of.held + turn.want).toBeLessThanOrEqual(of.cap);
              const got = Math.min(turn.want, of.waiting);
              of.waiting -= got;
              of.held += got;
              world.scheduler.settle({
                repoId: turn.repoId,
                got,
                isBusy: false,
                isFull: of.held >= of.cap,
                hasMore: of.waiting > 0,
              });
            }
            world.finish(`r${slots % repos.length}`);
          }
        },
      ),
    );
  });

  test('everything is served in the end: no order of finishing loses a repo', () => {
    const repo = fc.record({ waiting: fc.integer({ min: 1, max: 30 }), cap: fc.integer({ min: 1, max: 4 }) });
    fc.assert(
      fc.property(
        fc.array(repo, { minLength: 1, maxLength: 10 }),
        fc.integer({ min: 1, max: 9 }),
        fc.nat(),
        (repos, slots, seed) => {
          const world = new World(QUANTUM);
          repos.forEach(({ waiting, cap }, index) => world.add(`r${index}`, waiting, 1, cap));
          let turn = seed;
          for (let step = 0; step < 2_000 && [...world.repos.values()].some((r) => r.waiting > 0); step++) {
            world.step(slots, () => (turn = (turn * 48_271 + 1) % 2_147_483_647) % 5 === 0);
            for (const [repoId, r] of world.repos)
              if ((turn = (turn * 48_271 + 1) % 2_147_483_647) % 2 === 0 && r.held > 0) world.finish(repoId);
          }
          expect([...world.repos.values()].map((r) => r.waiting)).toEqual(repos.map(() => 0));
        },
      ),
    );
  });
});

describe('memory', () => {
  test('a repo that was idle has saved nothing and waits for no more than a round', () => {
    const world = new World(4);
    world.add('steady', ENDLESS);
    for (let i = 0; i < 1_000; i++) world.step(7);
    const before = world.share('steady');
    world.add('late', ENDLESS);
    for (let i = 0; i < 10; i++) world.step(8);
    expect(Math.abs(world.share('steady') - before - world.share('late'))).toBeLessThanOrEqual(8);
    expect(world.share('late')).toBeGreaterThanOrEqual(32);
  });

  test('leaving and coming back after each turn gains nothing', () => {
    fc.assert(
      fc.property(
        quantum,
        weights,
        fc.array(fc.integer({ min: 1, max: 20 }), { minLength: 10, maxLength: 100 }),
        (q, weight, steps) => {
          const world = new World(q);
          weight.forEach((w, index) => world.add(`r${index}`, ENDLESS, w));
          for (const slots of steps) {
            world.step(slots);
            world.finishAll();
            world.scheduler.withdraw('r0');
            world.announce('r0');
          }
          for (const [index, w] of weight.entries()) {
            expect(world.share('r0') - world.share(`r${index}`)).toBeLessThanOrEqual(
              q / weight[0]! + q / w + 1e-9,
            );
          }
        },
      ),
    );
  });

  test('repos without work are forgotten', () => {
    const world = new World(QUANTUM);
    for (let i = 0; i < 5_000; i++) world.add(`r${i}`, 1 + (i % 3), 1 + (i % 7));
    while (world.step(100).length > 0) world.finishAll();
    world.finishAll();
    expect(world.scheduler.size).toBe(0);
  });

  test('an endless stream of newcomers does not starve a repo that was served before', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 8 }), quantum, (slots, q) => {
        const world = new World(q);
        world.add('old', ENDLESS);
        world.step(slots);
        const before = world.share('old');
        for (let i = 0; i < 400; i++) {
          for (let k = 0; k < slots; k++) world.add(`new${i}-${k}`, 1);
          world.step(slots);
          world.finishAll();
        }
        expect(world.share('old') - before).toBeGreaterThanOrEqual(10);
      }),
      { numRuns: 30 },
    );
  });
});

describe('what a claim teaches', () => {
  test('a repo that is locked for a moment keeps its turn; one that stays locked lets others pass, and catches up', () => {
    const world = new World(1);
    world.add('a', ENDLESS);
    world.add('b', ENDLESS);
    const isBusy = (turn: Turn): boolean => turn.repoId === 'a';
    const asked = Array.from({ length: 10 }, () => world.step(1, isBusy)[0]!.repoId).join('');
    expect(asked).toBe('abaaaaaaaa');
    for (let i = 0; i < 3; i++) {
      expect(world.step(1, isBusy)).toEqual([{ repoId: 'b', want: 1 }]);
      expect(world.step(1, isBusy)).toEqual([{ repoId: 'a', want: 1 }]);
    }
    for (let i = 0; i < 10; i++) world.step(1);
    expect(Math.abs(world.share('a') - world.share('b'))).toBeLessThanOrEqual(2);
  });

  test('a repo that others were claiming from is awaited from then on, unless that was in vain', () => {
    const scheduler = new FairScheduler({ defaultCap: 4 });
    scheduler.hint('a');
    const turn = (wait?: 'worthwhile' | 'in_vain'): boolean => {
      // One that is busy again and again lets others pass.
      const { isAwaited = false } = scheduler.plan(1)[0] ?? scheduler.plan(1)[0]!;
      const settled = { repoId: 'a', got: 0, isBusy: wait !== undefined, isFull: false, hasMore: true };
      scheduler.settle({ ...settled, ...(wait === undefined ? {} : { wait }) });
      return isAwaited;
    };
    expect([turn(), turn(), turn('worthwhile'), turn(), turn()]).toEqual([false, false, false, true, true]);
    expect(Array.from({ length: 98 }, () => turn())).not.toContain(false);
    expect(turn()).toBe(false);

    expect([turn('worthwhile'), turn('in_vain'), turn('worthwhile')]).toEqual([false, true, false]);
    expect(Array.from({ length: 90 }, () => turn('worthwhile'))).not.toContain(true);
    expect(Array.from({ length: 90 }, () => turn()).lastIndexOf(true)).toBe(-1);
    expect([turn('worthwhile'), turn()]).toEqual([false, true]);
  });

  test('locks met at random do not change shares', () => {
    const few = fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 2, maxLength: 6 });
    fc.assert(
      fc.property(few, fc.array(fc.nat(11), { minLength: 100, maxLength: 300 }), (weight, luck) => {
        const world = new World(4);
        weight.forEach((w, index) => world.add(`r${index}`, ENDLESS, w));
        for (const [step, dice] of luck.entries()) {
          // Now and then each turn goes through, as locks do not last.
          world.step(8, (turn) => step % 6 !== 0 && turn.repoId === `r${dice}`);
          for (const [i, a] of weight.entries()) {
            for (const [j, b] of weight.entries()) {
              // The quanta, and the one plan in which the other had been planned already.
              expect(Math.abs(world.share(`r${i}`) - world.share(`r${j}`))).toBeLessThanOrEqual(
                (4 + 8) * (1 / a + 1 / b),
              );
            }
          }
        }
      }),
    );
  });

  test('a full repo waits for a release; others are not held up', () => {
    const world = new World(4);
    world.add('small', ENDLESS, 1, 2);
    world.add('large', ENDLESS, 1, 50);
    world.step(20);
    expect(world.repos.get('small')!.held).toBe(2);
    expect(world.scheduler.fullCount).toBe(1);
    expect(world.step(5)).toEqual([{ repoId: 'large', want: 5 }]);
    world.finish('small');
    expect(world.step(5)).toContainEqual({ repoId: 'small', want: 1 });
  });

  test('a repo that is full by the claims of others is tried again on request', () => {
    const scheduler = new FairScheduler({ defaultCap: 4 });
    scheduler.hint('a');
    expect(scheduler.plan(8)).toEqual([{ repoId: 'a', want: 4 }]);
    scheduler.settle({ repoId: 'a', got: 0, isBusy: false, isFull: true, hasMore: true });
    expect(scheduler.plan(8)).toEqual([]);
    scheduler.retryFull(10);
    expect(scheduler.plan(8)).toEqual([{ repoId: 'a', want: 4 }]);
  });

  test('work announced while a turn was out is not forgotten', () => {
    const scheduler = new FairScheduler({ defaultCap: 4 });
    scheduler.hint('a');
    scheduler.plan(8);
    scheduler.hint('a');
    scheduler.settle({ repoId: 'a', got: 0, isBusy: false, isFull: false, hasMore: false });
    expect(scheduler.plan(8)).toHaveLength(1);
  });
});
