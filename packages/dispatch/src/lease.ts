import { hostname } from 'node:os';
import { isRetryable, type DB } from '@sluice/db';
import { heartbeat, registerDispatcher, unregisterDispatcher } from '@sluice/queue-core/dispatcher';
import type { Kysely } from 'kysely';
import { backoffMs } from './backoff.ts';
import { BoundedCalls } from './bounded-calls.ts';
import type { Clock } from './clock.ts';
import type { DispatchEvent } from './dispatch-event.ts';

/** After an outage everyone is late: give the others this many beats before judging them dead; so does who is new. */
const SETTLE_BEATS = 2;
const CALL_BOUND_MS = 5_000;

/** This process's registration, kept alive by a timer of its own. */
export class Lease {
  readonly #db: Kysely<DB>;
  readonly #heartbeatDb: Kysely<DB>;
  readonly #clock: Clock;
  readonly #terms: { slots: number; leaseMs: number; beatMs: number };
  readonly #emit: (event: DispatchEvent) => void;
  readonly #onLost: () => void;
  readonly #onRegistered: () => void;
  readonly #calls: BoundedCalls;
  readonly #beats: BoundedCalls;
  readonly #ending = new AbortController();
  #id: string | undefined;
  #lastId = '';
  #beating: Promise<void> | undefined;
  #troubleAt = -Infinity;
  #beatAt = -Infinity;

  constructor(options: {
    db: Kysely<DB>;
    heartbeatDb: Kysely<DB>;
    clock: Clock;
    terms: { slots: number; leaseMs: number; beatMs: number };
    emit: (event: DispatchEvent) => void;
    /** It was declared dead: whatever runs, runs for nobody. Called before the new registration. */
    onLost: () => void;
    onRegistered: () => void;
  }) {
    this.#db = options.db;
    this.#heartbeatDb = options.heartbeatDb;
    this.#clock = options.clock;
    this.#calls = new BoundedCalls(options.clock);
    this.#beats = new BoundedCalls(options.clock);
    this.#terms = options.terms;
    this.#emit = options.emit;
    this.#onLost = options.onLost;
    this.#onRegistered = options.onRegistered;
  }

  /** The claimant of new claims; undefined between being declared dead and the next registration. */
  get id(): string | undefined {
    return this.#id;
  }

  /** The id it has, or had last. */
  get lastId(): string {
    return this.#lastId;
  }

  /** Whether heartbeats have gone well for long enough that another dispatcher's late one is its own fault. */
  get isSettled(): boolean {
    const { beatMs } = this.#terms;
    return !this.#isLate && this.#clock.now() - this.#troubleAt > SETTLE_BEATS * beatMs;
  }

  /** What kept this process from beating, such as a machine that stood still, may have kept the others from it. */
  get #isLate(): boolean {
    const { leaseMs, beatMs } = this.#terms;
    return this.#clock.now() - this.#beatAt > Math.max(leaseMs - beatMs, 2 * beatMs);
  }

  /** Registers, and throws if that fails; beats from then on. */
  async begin(): Promise<void> {
    await this.#register();
    // Nobody knows what was before: an outage may have ended in this moment.
    this.#troubleAt = this.#beatAt;
    this.#beating = this.#beat();
  }

  /** Ends the heartbeat and the registration; does not throw. */
  async end(): Promise<void> {
    this.#ending.abort();
    await this.#beating;
    const id = this.#id;
    this.#id = undefined;
    if (id === undefined) return;
    const gone = this.#calls.run(CALL_BOUND_MS, 'unregistering', () => this.#unregister(id));
    await gone.catch((error: unknown) => this.#emit({ name: 'heartbeat_failed', error }));
  }

  async #unregister(id: string): Promise<void> {
    try {
      await unregisterDispatcher(this.#db, id);
    } catch (error) {
      // The victim of a deadlock, for one: completions lock claims in no order. The other has gone on since.
      if (!isRetryable(error)) throw error;
      await unregisterDispatcher(this.#db, id);
    }
  }

  async #register(): Promise<void> {
    const { slots, leaseMs } = this.#terms;
    const own = { host: hostname(), pid: process.pid, slots, leaseMs };
    this.#id = await this.#calls.run(CALL_BOUND_MS, 'registering', () => registerDispatcher(this.#db, own));
    this.#lastId = this.#id;
    this.#noteBeat();
    this.#emit({ name: 'dispatcher_registered', dispatcherId: this.#id });
    this.#onRegistered();
  }

  #noteBeat(): void {
    const now = this.#clock.now();
    if (this.#isLate) this.#troubleAt = now;
    this.#beatAt = now;
  }

  async #heartbeat(id: string): Promise<'alive' | 'declared_dead'> {
    return await this.#beats.run(Math.min(this.#terms.beatMs, CALL_BOUND_MS), 'a heartbeat', () =>
      heartbeat(this.#heartbeatDb, id),
    );
  }

  async #beat(): Promise<void> {
    const { beatMs } = this.#terms;
    const stop = this.#ending.signal;
    let failures = 0;
    await this.#clock.sleep(beatMs, stop);
    while (!stop.aborted) {
      try {
        if (this.#id === undefined) await this.#register();
        else if ((await this.#heartbeat(this.#id)) === 'declared_dead') {
          this.#emit({ name: 'dispatcher_declared_dead', dispatcherId: this.#id });
          this.#id = undefined;
          this.#onLost();
          continue;
        }
        this.#noteBeat();
        failures = 0;
        await this.#clock.sleep(beatMs, stop);
      } catch (error) {
        failures += 1;
        this.#troubleAt = this.#clock.now();
        this.#emit({ name: 'heartbeat_failed', error });
        await this.#clock.sleep(
          backoffMs(failures, { minMs: beatMs / 10, maxMs: beatMs }, Math.random()),
          stop,
        );
      }
    }
  }
}
