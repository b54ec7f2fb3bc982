import { isUnavailable, SluiceError, sqlState, type DB } from '@sluice/db';
import {
  cleanReason,
  dispatcherCompleteMany,
  dispatcherFailMany,
  dispatcherHandBack,
  findEffect,
  type Claim,
  type FoundEffect,
} from '@sluice/queue-core/dispatcher';
import type { Kysely } from 'kysely';
import { backoffMs } from './backoff.ts';
import { BoundedCalls } from './bounded-calls.ts';
import type { Clock } from './clock.ts';
import { describeError } from './describe-error.ts';
import type { DispatchEvent, EffectEnd } from './dispatch-event.ts';
import type { Settlement } from './settlement.ts';

interface Pending {
  claim: Claim;
  settlement: Settlement;
  /** It was sent, and the connection was lost before the answer: it may have been accepted. */
  isUncertain: boolean;
  /** How often the database refused a statement that it was in. */
  refusals: number;
}

/** A few milliseconds, so that effects that end together share a statement. */
const GATHER_MS = 2;
const BATCH_MAX = 500;
/** Statements at once: while one waits for the disk, the other works: a tenth to a sixth more effects per second. The second sends full batches only. */
const SENDERS_MAX = 2;
/** A statement that takes longer counts as failed; its fate is then unknown. */
const SEND_BOUND_MS = 15_000;
const RETRY = { minMs: 50, maxMs: 2_000 };
/** A partition attached in this moment refuses a row just like a bad value does; only what lasts is a bad value. */
const REFUSALS_MAX = 3;

/**
 * Closes claims: gathers what ended for a few milliseconds and sends it as one statement. While the database is away
 * everything is kept and tried again; nothing is dropped before the database has said that the claim is stale.
 */
export class Completer {
  readonly #db: Kysely<DB>;
  readonly #clock: Clock;
  readonly #emit: (event: DispatchEvent) => void;
  readonly #onClosed: (claim: Claim, how: EffectEnd, error?: string) => void;
  readonly #mayOverlap: () => boolean;
  readonly #pending = new Map<bigint, Pending>();
  /** Claim numbers of those that no statement is under way for. */
  readonly #unsent: bigint[] = [];
  readonly #sends: BoundedCalls;
  readonly #senders = new Set<Promise<void>>();
  readonly #givingUp = new AbortController();

  constructor(options: {
    db: Kysely<DB>;
    clock: Clock;
    emit: (event: DispatchEvent) => void;
    /** Once for each claim, after the database has answered for it. */
    onClosed: (claim: Claim, how: EffectEnd, error?: string) => void;
    /** Whether a second statement is worth while now. */
    mayOverlap: () => boolean;
  }) {
    this.#db = options.db;
    this.#clock = options.clock;
    this.#sends = new BoundedCalls(options.clock, SENDERS_MAX + 1);
    this.#emit = options.emit;
    this.#onClosed = options.onClosed;
    this.#mayOverlap = options.mayOverlap;
  }

  /** Claims whose closing the database has not confirmed. */
  get size(): number {
    return this.#pending.size;
  }

  has(claimNumber: bigint): boolean {
    return this.#pending.has(claimNumber);
  }

  add(claim: Claim, settlement: Settlement): void {
    this.#pending.set(claim.claimNumber, { claim, settlement, isUncertain: false, refusals: 0 });
    this.#unsent.push(claim.claimNumber);
    this.#startSenderIfNeeded();
  }

  /** Resolves when everything added so far has been answered for, or when it gave up. */
  async drain(): Promise<void> {
    while (this.#senders.size > 0 && !this.#givingUp.signal.aborted) await Promise.all(this.#senders);
  }

  /** Stops trying: what is still pending is left to the next dispatcher, after the lease. */
  giveUp(): void {
    this.#givingUp.abort();
  }

  /** Whether there is work for a sender beside so many others. */
  #isNeeded(others: number): boolean {
    if (this.#givingUp.signal.aborted || others >= SENDERS_MAX) return false;
    return others === 0 ? this.#unsent.length > 0 : this.#unsent.length >= BATCH_MAX && this.#mayOverlap();
  }

  #startSenderIfNeeded(): void {
    if (!this.#isNeeded(this.#senders.size)) return;
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    this.#senders.add(ended);
    void this.#sendWhileNeeded().finally(() => {
      this.#senders.delete(ended);
      // What was added since it saw no more work took it for one that still sends.
      this.#startSenderIfNeeded();
      resolve();
    });
  }

  async #sendWhileNeeded(): Promise<void> {
    let failures = 0;
    if (this.#unsent.length < BATCH_MAX) await this.#clock.sleep(GATHER_MS);
    while (this.#isNeeded(this.#senders.size - 1)) {
      const numbers = this.#unsent.splice(0, BATCH_MAX);
      const batch = numbers.flatMap((number) => this.#pending.get(number) ?? []);
      try {
        await this.#sends.run(SEND_BOUND_MS, 'closing claims', () => this.#send(batch));
        failures = 0;
      } catch (error) {
        failures += 1;
        if (isUnavailable(error)) for (const pending of batch) pending.isUncertain = true;
        this.#emit({ name: 'completion_delayed', waiting: this.#pending.size, error });
      }
      this.#unsent.push(...numbers.filter((number) => this.#pending.has(number)));
      if (failures > 0)
        await this.#clock.sleep(backoffMs(failures, RETRY, Math.random()), this.#givingUp.signal);
      else if (this.#unsent.length < BATCH_MAX) await this.#clock.sleep(GATHER_MS);
    }
  }

  async #send(batch: Pending[]): Promise<void> {
    await this.#complete(batch.filter(({ settlement }) => settlement.kind === 'complete'));
    await this.#handBack(batch.filter(({ settlement }) => settlement.kind === 'hand_back'));
    await this.#fail(batch.filter(({ settlement }) => settlement.kind === 'fail'));
  }

  /** Of a claim that is no longer open: whether somebody took it away, or we closed it ourselves unawares. */
  async #verdict({ claim, settlement, isUncertain }: Pending): Promise<EffectEnd> {
    const found = isUncertain ? await findEffect(this.#db, claim.effectId) : undefined;
    if (found === undefined) return 'stale';
    if (settlement.kind === 'fail' && isRetryOf(found, claim, settlement.error)) return 'scheduled';
    if (found.claimNumber !== claim.claimNumber) return 'stale';
    if (found.state === 'dead') return 'dead';
    return found.outcome ?? 'stale';
  }

  async #handBack(batch: Pending[]): Promise<void> {
    if (batch.length === 0) return;
    const claims = batch.map(({ claim }) => claim);
    const accepted = new Set(await dispatcherHandBack(this.#db, claims));
    for (const { claim, isUncertain } of batch)
      this.#close(claim, isUncertain || accepted.has(claim.claimNumber) ? 'handed_back' : 'stale');
  }

  async #fail(batch: Pending[]): Promise<void> {
    if (batch.length === 0) return;
    const failures = batch.flatMap(({ claim, settlement }) =>
      settlement.kind === 'fail' ? [{ claim, ...settlement }] : [],
    );
    const ends = await dispatcherFailMany(this.#db, failures);
    for (const [index, { claim, error }] of failures.entries()) {
      const how = ends[index]!;
      this.#close(claim, how === 'stale' ? await this.#verdict(batch[index]!) : how, error);
    }
  }

  async #complete(batch: Pending[]): Promise<void> {
    if (batch.length === 0) return;
    const completions = batch.flatMap(({ claim, settlement }) =>
      settlement.kind === 'complete' ? [{ claim, ...settlement }] : [],
    );
    let accepted: Set<bigint>;
    try {
      accepted = new Set(await dispatcherCompleteMany(this.#db, completions));
    } catch (error) {
      if (!isFaultOfValues(error)) throw error;
      for (const pending of batch) pending.refusals += 1;
      if (batch.every(({ refusals }) => refusals < REFUSALS_MAX)) throw error;
      await this.#completeApart(batch, error);
      return;
    }
    for (const [index, { claim, outcome }] of completions.entries()) {
      this.#close(claim, accepted.has(claim.claimNumber) ? outcome : await this.#verdict(batch[index]!));
    }
  }

  /** One of them cannot be stored: halve until it is alone, and let it not hold up the others. */
  async #completeApart(batch: Pending[], error: unknown): Promise<void> {
    const [only] = batch;
    if (batch.length > 1 || only === undefined) {
      const middle = batch.length >> 1;
      await this.#complete(batch.slice(0, middle));
      await this.#complete(batch.slice(middle));
      return;
    }
    this.#emit({ name: 'completion_refused', claimNumber: only.claim.claimNumber, error });
    const message = `its completion could not be stored: ${describeError(error)}`;
    this.#pending.set(only.claim.claimNumber, {
      ...only,
      settlement: { kind: 'fail', error: message, isPoison: false, retryInMs: RETRY.maxMs },
    });
  }

  #close(claim: Claim, how: EffectEnd, error?: string): void {
    if (this.#pending.delete(claim.claimNumber)) this.#onClosed(claim, how, error);
  }
}

/**
 * Whether the effect waits for the next attempt, or is in it, for what this claim failed with. A retry keeps no claim
 * number, so the reason has to tell; it no longer does when the next attempt has ended too.
 */
function isRetryOf(found: FoundEffect, { attempt }: Claim, error: string): boolean {
  const ended = found.state === 'claimed' ? found.attempts - 1 : found.attempts;
  return found.finishedAt === null && ended === attempt && found.reason === cleanReason(error);
}

/** Class 22 is a value out of its type's range, class 23 a constraint it breaks: neither goes away by waiting. */
function isFaultOfValues(error: unknown): boolean {
  if (error instanceof SluiceError) return error.code === 'invalid_argument';
  const state = sqlState(error);
  return state !== undefined && /^2[23]/.test(state);
}
