import { table } from '@sluice/db';
import fc from 'fast-check';
import { sql } from 'kysely';
import { expect } from 'vitest';
import { cancelEffects } from '../src/cancel-effects.ts';
import { claimEffects } from '../src/claim-effects.ts';
import { completeEffect } from '../src/complete-effect.ts';
import { effectId } from '../src/effect-id.ts';
import { dispatcherClaim } from '../src/dispatcher-claim.ts';
import { dispatcherCompleteMany } from '../src/dispatcher-complete.ts';
import { dispatcherFail, dispatcherFailMany } from '../src/dispatcher-fail.ts';
import { dispatcherHandBack } from '../src/dispatcher-hand-back.ts';
import { heartbeat, unregisterDispatcher } from '../src/dispatcher-lease.ts';
import { enqueueEffect } from '../src/enqueue-effect.ts';
import { enqueueEffects } from '../src/enqueue-effects.ts';
import { fairClaim, type FairClaim } from '../src/fair-claim.ts';
import type { ClaimTurn } from '../src/fair-claim.ts';
import type { NewEffect } from '../src/new-effect.ts';
import { promoteDue } from '../src/promote-due.ts';
import { dispatcherRequeueStale } from '../src/requeue-stale.ts';
import { expectEqual, register, type Session, type World } from './model-world.ts';
import { DEFAULT_CAP, type QueueModel } from './queue-model.ts';

type Command = fc.AsyncCommand<QueueModel, World>;
type Run<T> = (model: QueueModel, world: World, drawn: T) => Promise<void>;

/** The name that claims go by that no dispatcher makes. */
const UNREGISTERED = 'w';
const LONG_MS = 1_000_000_000;

/** A command that draws its arguments, runs, and leaves the same in the rows and in the model. */
function command<T>(name: string, drawn: fc.Arbitrary<T>, run: Run<T>): fc.Arbitrary<Command> {
  return drawn.map((value) => ({
    check: () => true,
    async run(model, world) {
      await run(model, world, value);
      await expectEqual(model, world);
    },
    toString: () => `${name}(${JSON.stringify(value)})`,
  }));
}

const nth = fc.nat(30);
const nths = fc.array(nth, { minLength: 1, maxLength: 4 });
const at = <T>(list: readonly T[], index: number): T | undefined => list[index % Math.max(1, list.length)];
const session = (world: World, index: number): Session => at(world.sessions, index)!;
const pick = <T>(list: readonly T[], indexes: readonly number[]): T[] => [
  ...new Set(indexes.flatMap((index) => at(list, index) ?? [])),
];

const newEffect = fc
  .record(
    {
      priority: fc.integer({ min: -1, max: 1 }),
      maxAttempts: fc.integer({ min: 1, max: 3 }),
      dedupKey: fc.constantFrom('k1', 'k2'),
      isRetained: fc.boolean(),
      concurrencyGroup: fc.constantFrom('g1', 'g2'),
      supersede: fc.boolean(),
      isScheduled: fc.boolean(),
      repo: nth,
    },
    { requiredKeys: ['repo'] },
  )
  .map(({ isRetained, isScheduled, supersede, repo, ...rest }) => ({
    repo,
    effect: {
      ...rest,
      payload: 'x',
      retainDedupKey: isRetained === true && rest.dedupKey !== undefined,
      supersede: supersede === true && rest.concurrencyGroup !== undefined,
      ...(isScheduled === true ? { delayMs: LONG_MS } : {}),
    } satisfies Omit<NewEffect, 'repoId'>,
  }));

const enqueueMany = command(
  'enqueueEffects',
  fc.record({ by: nth, drawn: fc.array(newEffect, { minLength: 1, maxLength: 5 }) }),
  async (model, world, { by, drawn }) => {
    const effects = drawn.map(({ repo, effect }) => ({ ...effect, repoId: at(world.repoIds, repo)! }));
    const got = await enqueueEffects(session(world, by).db, effects);
    const ids = got.map(({ effectId }) => effectId);
    expect(got.map(({ status }) => status)).toEqual(model.enqueue(effects, ids));
  },
);

const enqueueOne = command(
  'enqueueEffect',
  fc.record({ by: nth, drawn: newEffect }),
  async (model, world, { by, drawn }) => {
    const effect = { ...drawn.effect, repoId: at(world.repoIds, drawn.repo)! };
    const id = await enqueueEffect(session(world, by).db, effect).catch((error: unknown) => {
      expect(error).toMatchObject({ code: 'queue_full' });
      return undefined;
    });
    const [status] = model.enqueue([effect], [id ?? -1n]);
    expect(status).toMatch(id === undefined ? /^skipped$/ : /^(queued|duplicate)$/);
    model.effects.delete(-1n);
  },
);

const claimOfRepo = command(
  'claimEffects',
  fc.record({ by: nth, repo: nth, limit: fc.integer({ min: 1, max: 3 }), isRegistered: fc.boolean() }),
  async (model, world, { by, repo, limit, isRegistered }) => {
    const { db, dispatcherId } = session(world, by);
    const repoId = at(world.repoIds, repo)!;
    const claimedBy = isRegistered ? dispatcherId : UNREGISTERED;
    const got = await claimEffects(db, { repoId, claimedBy, limit });
    const expected = model.claimOfRepo(repoId, limit).map(({ id }) => id);
    expect(got.map(({ effectId }) => effectId)).toEqual(expected);
    expect(model.give(got, Infinity)).toEqual([]);
    world.claims.push(...got);
  },
);

const claimOldest = command(
  'dispatcherClaim',
  fc.record({ by: nth, limit: fc.integer({ min: 1, max: 4 }), exclude: fc.array(nth, { maxLength: 2 }) }),
  async (model, world, { by, limit, exclude }) => {
    const { db, dispatcherId } = session(world, by);
    const excludeRepos = pick(world.repoIds, exclude);
    const got = await dispatcherClaim(db, { claimedBy: dispatcherId, limit, excludeRepos });
    const expected = model.claimOldest(limit, excludeRepos).map(({ id }) => id);
    expect(got.map(({ effectId }) => effectId)).toEqual(expected);
    expect(model.give(got, Infinity)).toEqual([]);
    world.claims.push(...got);
  },
);

const drawnTurns = fc.record({
  by: nth,
  repos: fc.array(nth, { minLength: 1, maxLength: 3 }),
  want: fc.integer({ min: 1, max: 3 }),
  isMarkUsed: fc.boolean(),
});
type DrawnTurns = typeof drawnTurns extends fc.Arbitrary<infer T> ? T : never;

/** Marks as a dispatcher passes them: that of open claims always, that of waiting effects as the hint it is. */
function turnsOf(world: World, { by, repos, want, isMarkUsed }: DrawnTurns): ClaimTurn[] {
  const { findings } = session(world, by);
  return pick(world.repoIds, repos).map((repoId) => ({
    repoId,
    want,
    sinceClaimNumber: findings.get(repoId)?.lowestClaim ?? undefined,
    sinceEffectId: isMarkUsed ? (findings.get(repoId)?.lowestWaiting ?? undefined) : undefined,
  }));
}

async function claimFairly(world: World, by: number, turns: readonly ClaimTurn[]): Promise<FairClaim> {
  const { db, dispatcherId, findings } = session(world, by);
  const got = await fairClaim(db, { claimedBy: dispatcherId, turns, defaultCap: DEFAULT_CAP });
  for (const finding of got.findings) findings.set(finding.repoId, finding);
  world.claims.push(...got.effects);
  return got;
}

const claimFair = command('fairClaim', drawnTurns, async (model, world, drawn) => {
  const turns = turnsOf(world, drawn);
  const { effects, findings, globalRoom } = await claimFairly(world, drawn.by, turns);
  expect(effects.map(({ effectId }) => effectId)).toEqual(model.fairClaim(turns).map(({ id }) => id));
  expect(model.give(effects, DEFAULT_CAP)).toEqual([]);
  expect(globalRoom).toBe(model.globalCap === null ? null : model.globalRoom());
  for (const [index, finding] of findings.entries()) {
    const { repoId } = turns[index]!;
    const repo = model.repos.get(repoId)!;
    expect(finding).toMatchObject({
      repoId,
      locked: true,
      got: effects.filter((effect) => effect.repoId === repoId).length,
      cap: repo.cap ?? DEFAULT_CAP,
      isPaused: repo.isPaused,
    });
    if (!repo.isPaused) expect(finding.room).toBe(model.roomOf(repoId, DEFAULT_CAP));
    // "Nothing else waits" must be true: the dispatcher would forget the repo until its next sweep.
    if (!finding.hasMore) {
      const since = turns[index]!.sinceEffectId ?? 0n;
      const left = model.waitingOf(repoId).filter(({ id, priority = 0 }) => priority !== 0 || id >= since);
      expect(left).toEqual([]);
    }
  }
});

/** Claims of several sessions at once: whatever they share out, no effect goes twice and no cap is exceeded. */
const claimAtOnce = command(
  'fairClaim at once',
  fc.array(drawnTurns, { minLength: 2, maxLength: 3 }),
  async (model, world, all) => {
    const got = await Promise.all(
      all.map((drawn, by) => claimFairly(world, by, turnsOf(world, { ...drawn, by, isMarkUsed: false }))),
    );
    const effects = got.flatMap((claim) => claim.effects);
    expect(model.give(effects, DEFAULT_CAP)).toEqual([]);
  },
);

const complete = command('completeEffect', fc.tuple(nth, nth), async (model, world, [by, which]) => {
  const claim = at(world.claims, which);
  if (claim === undefined) return;
  const got = await completeEffect(session(world, by).db, claim);
  expect(got).toBe(model.complete(claim.claimNumber));
});

const completeMany = command(
  'dispatcherCompleteMany',
  fc.tuple(nth, fc.array(nth, { minLength: 1, maxLength: 5 })),
  async (model, world, [by, which]) => {
    const given = which.flatMap((index) => at(world.claims, index) ?? []);
    const got = await dispatcherCompleteMany(
      session(world, by).db,
      given.map((claim) => ({ claim, outcome: 'pass' })),
    );
    const numbers = given.map(({ claimNumber }) => claimNumber);
    const expected = numbers.filter((number) => model.complete(number) === 'completed');
    expect(new Set(got)).toEqual(new Set(expected));
    expect(got).toHaveLength(expected.length);
  },
);

/** The same claims completed by all sessions at once, as after a lost answer: each is accepted once. */
const completeAtOnce = command('completeMany at once', nths, async (model, world, which) => {
  const completions = pick(world.claims, which).map((claim) => ({ claim, outcome: 'pass' }) as const);
  const got = await Promise.all(world.sessions.map(({ db }) => dispatcherCompleteMany(db, completions)));
  const expected = completions
    .map(({ claim }) => claim.claimNumber)
    .filter((number) => model.complete(number) === 'completed');
  expect(new Set(got.flat())).toEqual(new Set(expected));
  expect(got.flat()).toHaveLength(expected.length);
});

const fail = command(
  'dispatcherFail',
  fc.record({ by: nth, which: nth, isPoison: fc.boolean(), isDueAtOnce: fc.boolean() }),
  async (model, world, { by, which, isPoison, isDueAtOnce }) => {
    const claim = at(world.claims, which);
    if (claim === undefined) return;
    const retryInMs = isDueAtOnce ? 0 : LONG_MS;
    const got = await dispatcherFail(session(world, by).db, { claim, error: 'why', retryInMs, isPoison });
    expect(got).toBe(model.fail(claim.claimNumber, { isPoison, isDueAtOnce }));
  },
);

const failMany = command(
  'dispatcherFailMany',
  fc.tuple(nth, fc.array(fc.tuple(nth, fc.boolean()), { minLength: 1, maxLength: 5 })),
  async (model, world, [by, drawn]) => {
    const failures = drawn.flatMap(([which, isPoison]) => {
      const claim = at(world.claims, which);
      return claim === undefined ? [] : [{ claim, error: 'why', retryInMs: LONG_MS, isPoison }];
    });
    const got = await dispatcherFailMany(session(world, by).db, failures);
    const expected = failures.map(({ claim, isPoison }) =>
      model.fail(claim.claimNumber, { isPoison, isDueAtOnce: false }),
    );
    expect(got).toEqual(expected);
  },
);

const handBack = command('dispatcherHandBack', fc.tuple(nth, nths), async (model, world, [by, which]) => {
  const claims = pick(world.claims, which);
  const got = await dispatcherHandBack(session(world, by).db, claims);
  expect(got).toHaveLength(model.handBack(claims.map(({ claimNumber }) => claimNumber)));
});

const cancel = command('cancelEffects', fc.tuple(nth, nth, nths), async (model, world, [by, repo, which]) => {
  const repoId = at(world.repoIds, repo)!;
  const effectIds = pick([...model.effects.keys()], which).map(effectId);
  const got = await cancelEffects(session(world, by).db, { repoId, effectIds, reason: 'why' });
  expect(got).toEqual(model.cancel(repoId, effectIds));
});

const setRepo = command(
  'repo set',
  fc.record({
    by: nth,
    repo: nth,
    cap: fc.option(fc.integer({ min: 1, max: 3 })),
    maxQueued: fc.option(fc.nat(4)),
    isPaused: fc.boolean(),
  }),
  async (model, world, { by, repo, cap, maxQueued, isPaused }) => {
    const repoId = at(world.repoIds, repo)!;
    await session(world, by)
      .db.updateTable('repo')
      .set({ cap, max_queued: maxQueued, paused_at: isPaused ? sql<Date>`now()` : null })
      .where('repo_id', '=', repoId)
      .execute();
    model.repos.set(repoId, { cap, maxQueued, isPaused });
  },
);

const setGlobalCap = command(
  'global cap',
  fc.record({ by: nth, cap: fc.option(fc.integer({ min: 1, max: 4 })) }),
  async (model, world, { by, cap }) => {
    await session(world, by).db.updateTable('queue_limit').set({ global_cap: cap }).execute();
    model.globalCap = cap;
  },
);

const makeDue = command('time passes', fc.tuple(nth, nth), async (model, world, [by, which]) => {
  // Only what was not due yet, so that ranks rise in the order of times.
  const effect = at(
    model.list('scheduled').filter(({ dueRank }) => dueRank === null),
    which,
  );
  if (effect === undefined) return;
  await sql`update ${table('effect_queue')} set run_at = clock_timestamp() where effect_id = ${effect.id}`.execute(
    session(world, by).db,
  );
  effect.dueRank = model.nextRank();
});

const promote = command(
  'promoteDue',
  fc.tuple(nth, fc.integer({ min: 1, max: 3 })),
  async (model, world, [by, limit]) => {
    const got = await promoteDue(session(world, by).db, { limit });
    const ids = got.promoted.map(({ effectId }) => effectId);
    expect(new Set(ids)).toEqual(new Set(model.promote(limit)));
  },
);

/** A dispatcher stops beating; another notices, and it comes back under a new id. */
const die = command('a dispatcher dies', fc.tuple(nth, nth), async (model, world, [who, by]) => {
  const dead = session(world, who);
  await dead.db
    .updateTable('dispatcher')
    .set({ heartbeat_at: sql<Date>`now() - interval '2 hours'` })
    .where('dispatcher_id', '=', dead.dispatcherId)
    .execute();
  const requeued = await dispatcherRequeueStale(session(world, by).db, { olderThanMs: LONG_MS });
  expect(requeued).toBe(model.loseClaims((claimant) => claimant === dead.dispatcherId));
  expect(await heartbeat(dead.db, dead.dispatcherId)).toBe('declared_dead');
  dead.dispatcherId = await register(dead.db);
});

const requeueUnregistered = command('requeue of unregistered claims', nth, async (model, world, by) => {
  const requeued = await dispatcherRequeueStale(session(world, by).db, { olderThanMs: 0 });
  expect(requeued).toBe(model.loseClaims((claimant) => claimant === UNREGISTERED));
});

const restart = command('a dispatcher restarts', nth, async (model, world, who) => {
  const { db, dispatcherId } = session(world, who);
  await unregisterDispatcher(db, dispatcherId);
  const held = model.list('claimed').flatMap(({ claim }) => (claim?.claimant === dispatcherId ? claim : []));
  model.handBack(held.map(({ number }) => number));
  session(world, who).dispatcherId = await register(db);
});

/** Every operation of the queue; the common ones several times, so that runs get somewhere. */
export const commands: readonly fc.Arbitrary<Command>[] = [
  enqueueMany,
  enqueueMany,
  enqueueMany,
  enqueueOne,
  claimOfRepo,
  claimOldest,
  claimFair,
  claimFair,
  claimAtOnce,
  complete,
  completeMany,
  completeAtOnce,
  fail,
  failMany,
  handBack,
  cancel,
  setRepo,
  setGlobalCap,
  makeDue,
  promote,
  die,
  requeueUnregistered,
  restart,
];
