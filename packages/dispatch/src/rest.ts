import type { DB } from '@sluice/db';
import { setSleeping } from '@sluice/queue-core/dispatcher';
import type { Kysely } from 'kysely';
import type { Claimer } from './claimer.ts';
import { BoundedCalls } from './bounded-calls.ts';
import type { Clock } from './clock.ts';
import type { NewsRate } from './news-rate.ts';
import type { WakeUp } from './wake-up.ts';

/**
 * Looks again so long after falling asleep: an enqueue that saw us awake, and so sent no notification, may have been
 * committed after the first look. Later ones are left to the poll.
 */
const LOOKS_AFTER_MS = [30, 300];
/** First pause before what waits for room is looked at again; doubles up to the poll interval. */
const FULL_MS_MIN = 25;
/** A call to the database that takes longer counts as failed. */
const CALL_BOUND_MS = 15_000;

/**
 * What the loop does when there is nothing to claim: it says that it sleeps, looks once more, then waits for news. Asleep,
 * it hears of each new effect; it stays asleep while it works, unless effects arrive so fast that enqueues should be
 * spared the notifications.
 */
export class Rest {
  readonly #db: Kysely<DB>;
  readonly #calls: BoundedCalls;
  readonly #pollMs: number;
  readonly #claimer: Claimer;
  readonly #wakeUp: WakeUp;
  readonly #news: NewsRate;
  readonly #isListening: () => boolean;
  readonly #currentId: () => string | undefined;
  /** What the database was told last; undefined: it may not know of it, and is told again. */
  #isSleeping: boolean | undefined = false;
  #looksLeft: number[] = [];
  #fullMs = FULL_MS_MIN;

  constructor(options: {
    db: Kysely<DB>;
    clock: Clock;
    pollMs: number;
    claimer: Claimer;
    wakeUp: WakeUp;
    news: NewsRate;
    isListening: () => boolean;
    currentId: () => string | undefined;
  }) {
    this.#db = options.db;
    this.#calls = new BoundedCalls(options.clock);
    this.#pollMs = options.pollMs;
    this.#claimer = options.claimer;
    this.#wakeUp = options.wakeUp;
    this.#news = options.news;
    this.#isListening = options.isListening;
    this.#currentId = options.currentId;
  }

  /** Whether enqueues are asked to notify. */
  get isSleeping(): boolean {
    return this.#isSleeping === true;
  }

  /** What the database was told may be lost: with the registration, or with a server that another one stands in for. */
  forget(): void {
    this.#isSleeping = undefined;
  }

  /** A claim brought something. */
  async end(dispatcherId: string): Promise<void> {
    this.#fullMs = FULL_MS_MIN;
    // A few effects now and then are served faster asleep: each is announced, and nothing is written in between.
    if (this.#isSleeping !== false && this.#news.isBusy) await this.#setSleeping(dispatcherId, false);
  }

  /** A claim brought nothing, and there is nothing else to claim. `onNothing` hears when a second look agrees. */
  async begin(dispatcherId: string, onNothing: () => Promise<void>): Promise<void> {
    if (this.#isListening() && !this.isSleeping && !this.#news.isBusy) {
      await this.#setSleeping(dispatcherId, true);
      this.#looksLeft = [...LOOKS_AFTER_MS];
      await this.#claimer.sweep();
      if (this.#claimer.hasWork) return;
    }
    await onNothing();
    if (!this.#claimer.hasWork) await this.#waitForNews();
  }

  async #waitForNews(): Promise<void> {
    const [lookMs = this.#pollMs] = this.#looksLeft;
    const fullMs = this.#claimer.isBlocked ? this.#fullMs : this.#pollMs;
    if (await this.#wakeUp.wait(Math.min(lookMs, fullMs, this.#pollMs))) return;
    if (fullMs < this.#pollMs) {
      this.#fullMs = Math.min(2 * fullMs, this.#pollMs);
      this.#claimer.retryFull();
    }
    if (this.#looksLeft.shift() !== undefined) await this.#claimer.sweep();
  }

  async #setSleeping(id: string, isSleeping: boolean): Promise<void> {
    this.#isSleeping = undefined;
    await this.#calls.run(CALL_BOUND_MS, 'falling asleep or waking', () =>
      setSleeping(this.#db, id, isSleeping),
    );
    // The registration that it was about may be lost meanwhile; the next one is awake.
    this.#isSleeping = isSleeping && this.#currentId() === id;
  }
}
