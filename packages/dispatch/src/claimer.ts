import { sqlState, type DB } from '@sluice/db';
import {
  fairClaim,
  isRepoId,
  readyRepos,
  type Claim,
  type ClaimedEffect,
  type ReadyRepo,
} from '@sluice/queue-core/dispatcher';
import type { Kysely } from 'kysely';
import { BoundedCalls } from './bounded-calls.ts';
import type { Clock } from './clock.ts';
import type { DispatchEvent } from './dispatch-event.ts';
import { FairScheduler } from './fair-scheduler.ts';
import { LowWaterMarks, type Look } from './low-water-marks.ts';
import type { Turn } from './turn.ts';

/** Most effects of one claim, and repos of one page of a sweep. */
const CLAIM_MAX = 1_000;
const SWEEP_PAGE = 1_000;
/** Repos at their cap that are tried again at once: they may have room by what others closed. */
const RETRY_FULL_MAX = 500;
const LOCK_NOT_AVAILABLE = '55P03';
/** A claim, or a page of a sweep, that takes longer counts as failed. */
const CALL_BOUND_MS = 15_000;

/** What a claim brought; `isContended` when all it learned is that other claimers were at the same repos. */
export interface Catch {
  effects: ClaimedEffect[];
  isContended: boolean;
}

/** Joins what the scheduler believes with what the rows say. */
export class Claimer {
  readonly #db: Kysely<DB>;
  readonly #claims: BoundedCalls;
  readonly #sweeps: BoundedCalls;
  readonly #emit: (event: DispatchEvent) => void;
  readonly #defaultCap: number;
  readonly #scheduler: FairScheduler;
  readonly #marks = new LowWaterMarks();
  #hasMetCap = false;
  /** Effects that could be claimed before the queue is at its global cap, as far as we know; null: it has none. */
  #globalRoom: number | null = null;
  #released = 0;

  constructor(options: {
    db: Kysely<DB>;
    clock: Clock;
    emit: (event: DispatchEvent) => void;
    defaultCap: number;
  }) {
    this.#db = options.db;
    this.#claims = new BoundedCalls(options.clock);
    this.#sweeps = new BoundedCalls(options.clock);
    this.#emit = options.emit;
    this.#defaultCap = options.defaultCap;
    this.#scheduler = new FairScheduler({ defaultCap: options.defaultCap });
  }

  /** Whether a claim made now may find something. */
  get hasWork(): boolean {
    return this.#globalRoom !== 0 && this.#scheduler.hasWork;
  }

  /** Whether work waits for room: in a repo at its cap, or in the queue at its global cap. */
  get isBlocked(): boolean {
    return this.#scheduler.fullCount > 0 || (this.#globalRoom === 0 && this.#scheduler.hasWork);
  }

  /** Whether the last claim left a repo at its cap: completions are waited for then. */
  get hasMetCap(): boolean {
    return this.#hasMetCap;
  }

  /** A repo may have work: an effect was announced, became due or came back. */
  hint(repoId: string, effectId?: bigint): void {
    if (!isRepoId(repoId)) return;
    this.#marks.lower(repoId, effectId);
    this.#scheduler.hint(repoId);
  }

  /** A claim of this repo is closed: there is room for another. */
  release(claim: Claim): void {
    this.#scheduler.release(claim.repoId);
    this.#released += 1;
    if (this.#globalRoom !== null) this.#globalRoom += 1;
  }

  /** Looks again where there was no room for what others hold. */
  retryFull(): void {
    this.#scheduler.retryFull(RETRY_FULL_MAX);
    // One effect is asked for, and its claim says how much room there is.
    if (this.#globalRoom === 0) this.#globalRoom = 1;
  }

  /** Rebuilds the belief from rows: which repos have work, with what weight and cap. */
  async sweep(): Promise<void> {
    let after: string | undefined;
    for (;;) {
      const from = { limit: SWEEP_PAGE, after };
      const look = this.#marks.beginLook();
      try {
        const page = await this.#sweeps.run(CALL_BOUND_MS, 'a page of a sweep', () =>
          readyRepos(this.#db, from),
        );
        for (const repo of page) this.#learn(look, repo);
        if (page.length < SWEEP_PAGE) break;
        after = page.at(-1)?.repoId;
      } finally {
        this.#marks.endLook(look);
      }
    }
    // Those that the sweep did not name have no work any more: a claim finds that out.
    this.retryFull();
  }

  /** Claims up to `slots` effects, from whoever's turn it is. */
  async claim(claimedBy: string, slots: number): Promise<Catch> {
    const plan = this.#scheduler.plan(Math.min(slots, CLAIM_MAX, this.#globalRoom ?? CLAIM_MAX));
    if (plan.length === 0) return { effects: [], isContended: this.hasWork };
    const turns = plan.map((turn) => ({ ...turn, ...this.#marks.of(turn.repoId) }));
    const look = this.#marks.beginLook();
    const releasedBefore = this.#released;
    try {
      const options = { claimedBy, turns, defaultCap: this.#defaultCap };
      const { effects, findings, globalRoom } = await this.#claims.run(CALL_BOUND_MS, 'a claim', () =>
        fairClaim(this.#db, options),
      );
      this.#hasMetCap = globalRoom === 0 || findings.some(({ locked, room }) => locked && room === 0);
      // What was closed meanwhile may have been counted. If it was, one claim is in vain; else its room would be forgotten.
      this.#globalRoom = globalRoom === null ? null : globalRoom + this.#released - releasedBefore;
      for (const finding of findings) {
        this.#marks.raise(look, finding.repoId, {
          claim: finding.lowestClaim,
          waiting: finding.locked ? finding.lowestWaiting : null,
        });
        this.#scheduler.settle({
          repoId: finding.repoId,
          got: finding.got,
          isBusy: !finding.locked,
          // At the global cap it keeps its place: whose turn it is then is decided when there is room.
          isFull: finding.locked && finding.room === 0,
          hasMore: finding.hasMore && !finding.isPaused,
          ...(finding.locked ? { share: finding } : { wait: 'worthwhile' }),
        });
      }
      return { effects, isContended: findings.every((finding) => !finding.locked) };
    } catch (error) {
      this.#keepPlaces(plan, error);
      const wasInVain = isInVain(error) && plan.some((turn) => turn.isAwaited);
      if (wasInVain) return { effects: [], isContended: true };
      throw error;
    } finally {
      this.#marks.endLook(look);
    }
  }

  #learn(look: Look, repo: ReadyRepo): void {
    const { repoId } = repo;
    // Put in past our functions: one such id would make every claim that names it fail.
    if (!isRepoId(repoId)) {
      this.#emit({ name: 'repo_refused', repoId });
      return;
    }
    // Behind more urgent ones, the first of priority 0 is not known; before patient ones there is none.
    if (repo.next?.priority === 0) this.#marks.sweep(look, repoId, repo.next.effectId);
    else if (repo.next !== null && repo.next.priority > 0) this.#marks.lower(repoId);
    if (repo.isPaused) this.#scheduler.withdraw(repoId);
    else if (repo.next !== null)
      this.#scheduler.announce({ ...repo, hasRoom: repo.claimed < (repo.cap ?? this.#defaultCap) });
  }

  /** Nothing is known about how the claim went: every repo keeps its place, and nothing is charged. */
  #keepPlaces(plan: readonly Turn[], error: unknown): void {
    for (const { repoId, isAwaited } of plan) {
      const wait = isAwaited === true && isInVain(error) ? { wait: 'in_vain' as const } : {};
      this.#scheduler.settle({ repoId, got: 0, isBusy: true, isFull: false, hasMore: true, ...wait });
    }
  }
}

/** Whether the wait for the turn of an awaited repo was too long. */
function isInVain(error: unknown): boolean {
  return sqlState(error) === LOCK_NOT_AVAILABLE;
}
