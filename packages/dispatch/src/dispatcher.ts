import { hearInProcess, type Claim, type ClaimedEffect } from '@sluice/queue-core/dispatcher';
import { Arrivals } from './arrivals.ts';
import { backoffMs } from './backoff.ts';
import { Claimer } from './claimer.ts';
import { bounded } from './clock.ts';
import { Completer } from './completer.ts';
import type { EffectEnd } from './dispatch-event.ts';
import type { DispatcherParts } from './dispatcher-parts.ts';
import { Lease } from './lease.ts';
import { listenForEffects } from './listen-for-effects.ts';
import { LostClaims } from './lost-claims.ts';
import { NewsRate } from './news-rate.ts';
import { Rest } from './rest.ts';
import type { RunResult } from './run-result.ts';
import type { AbortCause } from './run.ts';
import { Runner } from './runner.ts';
import { settlementOf } from './settlement.ts';
import { Upkeep } from './upkeep.ts';
import { WakeUp } from './wake-up.ts';

/** Closed claims that the database has not confirmed, at which nothing more is claimed. */
const UNCONFIRMED_MAX = 5_000;
const CLAIM_BACKOFF = { minMs: 50, maxMs: 5_000 };
/** Pause when all repos in question are locked by other claimers: about as long as their claims take. */
const CONTENDED_MS = 4;
/**
 * Between two claims while most slots are taken, so that slots that become free one by one are filled by few claims: one
 * claim of one effect costs the server as much as one of twenty.
 */
const PACE_MS = 4;
/** Bounds of the last steps of a stop. */
const ABORT_BOUND_MS = 5_000;
const CONFIRM_BOUND_MS = 5_000;

/** The loop: claims, hands to the runner, rests when there is nothing to do. Its parts know nothing of each other. */
export class Dispatcher {
  readonly #parts: DispatcherParts;
  readonly #claimer: Claimer;
  readonly #completer: Completer;
  readonly #runner: Runner;
  readonly #lease: Lease;
  readonly #upkeep: Upkeep;
  readonly #lostClaims: LostClaims;
  readonly #rest: Rest;
  readonly #wakeUp: WakeUp;
  readonly #news: NewsRate;
  readonly #arrivals: Arrivals;
  readonly #stopping = new AbortController();
  readonly #hurrying = new AbortController();
  #claimedAt = -Infinity;
  readonly #counts = { claimed: 0, completed: 0, retried: 0, dead: 0, stale: 0, handedBack: 0 };
  #idleWaiters: (() => void)[] = [];
  #listener: AsyncDisposable | undefined;
  #deafen: (() => void) | undefined;
  #claiming: Promise<void> | undefined;
  #upkeeping: Promise<unknown> | undefined;
  #stopped: Promise<void> | undefined;

  constructor(parts: DispatcherParts) {
    const { db, clock, emit } = parts;
    this.#parts = parts;
    this.#wakeUp = new WakeUp(clock);
    this.#news = new NewsRate(clock);
    this.#claimer = new Claimer({ db, clock, emit, defaultCap: parts.repoCap });
    this.#completer = new Completer({
      db,
      clock,
      emit,
      onClosed: (claim, how, error) => this.#onClosed(claim, how, error),
      // Repos at their cap wait for completions: one half after the other, they are claimed from in fewer, larger turns.
      // With a cap of 2 on each of 1,000 repos, two at once made a fifth fewer effects per second.
      mayOverlap: () => !this.#claimer.hasMetCap,
    });
    this.#runner = new Runner({
      db,
      clock,
      emit,
      run: parts.run,
      onEnded: (effect, result, cause) => this.#onEnded(effect, result, cause),
    });
    this.#lease = new Lease({
      db,
      heartbeatDb: parts.heartbeatDb,
      clock,
      emit,
      terms: parts,
      onLost: () => {
        this.#rest.forget();
        this.#runner.abortAll('claim_lost');
      },
      onRegistered: () => this.#wakeUp.ring(),
    });
    this.#upkeep = new Upkeep({
      db,
      clock,
      emit,
      pollMs: parts.pollMs,
      beatMs: parts.beatMs,
      retentionDays: parts.retentionDays,
      mayJudge: () => this.#lease.isSettled,
      onDue: (repoId, effectId) => {
        this.#claimer.hint(repoId, effectId);
        this.#wakeUp.ring();
      },
      sweep: () => this.#sweep(),
      stop: this.#stopping.signal,
    });
    this.#lostClaims = new LostClaims({
      db,
      clock,
      emit,
      isKnown: (claimNumber) => this.#runner.has(claimNumber) || this.#completer.has(claimNumber),
      onHandedBack: (repoId, effectId) => this.#claimer.hint(repoId, effectId),
    });
    this.#rest = new Rest({
      db,
      clock,
      pollMs: parts.pollMs,
      claimer: this.#claimer,
      wakeUp: this.#wakeUp,
      news: this.#news,
      isListening: () => this.#listener !== undefined,
      currentId: () => this.#lease.id,
    });
    this.#arrivals = new Arrivals({
      db,
      clock,
      shouldLook: () => this.#looksForArrivals,
      onArrived: (arrivals) => {
        this.#news.note(arrivals.length);
        const waiting = arrivals.filter(({ isWaiting }) => isWaiting);
        for (const { repoId, effectId } of waiting) this.#claimer.hint(repoId, effectId);
        if (waiting.length > 0) this.#wakeUp.ring();
      },
      onError: (error) => emit({ name: 'upkeep_failed', task: 'look_for_arrivals', error }),
      stop: this.#stopping.signal,
    });
  }

  get dispatcherId(): string {
    return this.#lease.lastId;
  }

  get stats() {
    return { running: this.#runner.size, ...this.#counts };
  }

  async start(): Promise<void> {
    await this.#lease.begin();
    const { connectionString, emit } = this.#parts;
    if (connectionString !== undefined) {
      this.#listener = listenForEffects({
        connectionString,
        emit,
        onAnnounced: (repoId, effectId) => this.#onAnnounced(repoId, effectId),
        onReady: () => {
          this.#rest.forget();
          void this.#sweepAfterGap();
        },
      });
    }
    this.#deafen = this.#hearInProcess();
    this.#claiming = this.#claimUntilStopped();
    this.#upkeeping = Promise.all([this.#upkeep.run(), this.#arrivals.run()]);
  }

  async idle(): Promise<void> {
    if (this.#stopping.signal.aborted) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#idleWaiters.push(resolve);
    this.#wakeUp.ring();
    await promise;
  }

  async stop(options: { hurry?: boolean } = {}): Promise<void> {
    if (options.hurry === true) this.#hurrying.abort();
    await (this.#stopped ??= this.#stop());
  }

  /** One that is never notified, and has nothing to do, is left to the poll. */
  get #looksForArrivals(): boolean {
    return this.#listener === undefined ? this.#runner.size > 0 : !this.#rest.isSleeping;
  }

  #hearInProcess(): () => void {
    const lease = this.#lease;
    return hearInProcess(this.#parts.db, {
      get id() {
        return lease.id;
      },
      onEnqueued: (repoId, effectId) => {
        // While many arrive, they are found many at a time.
        if (this.#looksForArrivals) this.#claimer.hint(repoId, effectId);
        else this.#onAnnounced(repoId, effectId);
      },
    });
  }

  #onAnnounced(repoId: string, effectId: bigint): void {
    this.#claimer.hint(repoId, effectId);
    this.#news.note(1);
    this.#wakeUp.ring();
  }

  async #sweepAfterGap(): Promise<void> {
    try {
      await this.#sweep();
    } catch (error) {
      this.#parts.emit({ name: 'upkeep_failed', task: 'sweep', error });
    }
  }

  async #sweep(): Promise<void> {
    await this.#claimer.sweep();
    this.#lostClaims.suspect();
    this.#wakeUp.ring();
  }

  async #claimUntilStopped(): Promise<void> {
    const { clock, emit } = this.#parts;
    let failures = 0;
    while (!this.#stopping.signal.aborted) {
      try {
        await this.#turn();
        failures = 0;
      } catch (error) {
        failures += 1;
        this.#lostClaims.suspect();
        emit({ name: 'claim_failed', error });
        await clock.sleep(backoffMs(failures, CLAIM_BACKOFF, Math.random()), this.#stopping.signal);
      }
    }
  }

  /** One claim, and a rest if it shows that there is nothing to do. */
  async #turn(): Promise<void> {
    const { slots, pollMs, clock } = this.#parts;
    const { id } = this.#lease;
    if (id === undefined) {
      await this.#wakeUp.wait(pollMs);
      return;
    }
    await this.#lostClaims.recover(id);
    // A stop in between has freed slots, which are not for claiming.
    if (this.#stopping.signal.aborted) return;
    const free = Math.min(slots - this.#runner.size, UNCONFIRMED_MAX - this.#completer.size);
    if (free <= 0) {
      await this.#wakeUp.wait(pollMs);
      return;
    }
    const sinceClaimMs = clock.now() - this.#claimedAt;
    if (free < slots / 3 && sinceClaimMs < PACE_MS) {
      await clock.sleep(PACE_MS - sinceClaimMs, this.#stopping.signal);
      return;
    }
    this.#claimedAt = clock.now();
    const { effects, isContended } = await this.#claimer.claim(id, free);
    this.#take(id, effects);
    if (effects.length > 0) await this.#rest.end(id);
    else if (isContended) await clock.sleep(CONTENDED_MS * (0.5 + Math.random()), this.#stopping.signal);
    else if (!this.#claimer.hasWork) await this.#rest.begin(id, () => this.#tellIdle());
  }

  #take(id: string, effects: readonly ClaimedEffect[]): void {
    this.#counts.claimed += effects.length;
    const isOurs = this.#lease.id === id && !this.#stopping.signal.aborted;
    for (const effect of effects) {
      if (isOurs) this.#runner.start(effect);
      else this.#completer.add(effect, { kind: 'hand_back' });
    }
  }

  async #tellIdle(): Promise<void> {
    if (this.#idleWaiters.length === 0 || !(await this.#isIdle())) return;
    for (const resolve of this.#idleWaiters.splice(0)) resolve();
  }

  async #isIdle(): Promise<boolean> {
    if (this.#runner.size > 0 || this.#completer.size > 0) return false;
    await this.#claimer.sweep();
    return (
      !this.#claimer.hasWork &&
      !this.#claimer.isBlocked &&
      this.#runner.size === 0 &&
      this.#completer.size === 0
    );
  }

  #onEnded(effect: ClaimedEffect, result: RunResult, cause: AbortCause | undefined): void {
    this.#wakeUp.ring();
    if (result.status === 'settled') this.#onClosed(effect, 'settled');
    // What an aborted run says is not believed. A claim that is lost is stale then.
    else if (cause !== undefined) this.#completer.add(effect, { kind: 'hand_back' });
    else this.#completer.add(effect, settlementOf(effect, result, this.#parts.retry));
  }

  #onClosed(claim: Claim, how: EffectEnd, error?: string): void {
    const counts = this.#counts;
    if (how === 'scheduled') counts.retried += 1;
    else if (how === 'dead') counts.dead += 1;
    else if (how === 'stale') counts.stale += 1;
    else if (how === 'handed_back') counts.handedBack += 1;
    else counts.completed += 1;
    const { effectId, claimNumber, repoId, attempt } = claim;
    this.#parts.emit({
      name: 'effect_ended',
      effectId,
      claimNumber,
      repoId,
      attempt,
      how,
      ...(error === undefined ? {} : { error }),
    });
    this.#claimer.release(claim);
    this.#wakeUp.ring();
  }

  async #stop(): Promise<void> {
    const { clock, graceMs, emit } = this.#parts;
    const before = this.#counts.handedBack;
    this.#stopping.abort();
    this.#deafen?.();
    this.#wakeUp.ring();
    for (const resolve of this.#idleWaiters.splice(0)) resolve();
    // The heartbeat goes on until the last claim is closed: nobody else may take what is still running.
    const withinGrace = new AbortController();
    this.#hurrying.signal.addEventListener('abort', () => withinGrace.abort());
    if (this.#hurrying.signal.aborted) withinGrace.abort();
    const ended = this.#runner.ended().then(() => withinGrace.abort());
    await clock.sleep(graceMs, withinGrace.signal);
    this.#runner.abortAll('stopping');
    await bounded(clock, ABORT_BOUND_MS, 'ending aborted runs', ended).catch(() => undefined);
    for (const effect of this.#runner.abandon()) this.#completer.add(effect, { kind: 'hand_back' });
    const closed = this.#claiming?.then(() => this.#completer.drain());
    const confirmed = Promise.all([closed, this.#upkeeping]);
    await bounded(clock, CONFIRM_BOUND_MS, 'closing the last claims', confirmed).catch(() => undefined);
    this.#completer.giveUp();
    await Promise.all([this.#listener?.[Symbol.asyncDispose](), this.#lease.end()]);
    emit({
      name: 'dispatcher_stopped',
      dispatcherId: this.dispatcherId,
      handedBack: this.#counts.handedBack - before,
      unclosed: this.#completer.size,
    });
  }
}
