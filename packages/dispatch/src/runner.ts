import type { DB } from '@sluice/db';
import type { ClaimedEffect } from '@sluice/queue-core/dispatcher';
import type { Kysely } from 'kysely';
import { BoundedCalls } from './bounded-calls.ts';
import type { Clock } from './clock.ts';
import { describeError } from './describe-error.ts';
import type { DispatchEvent } from './dispatch-event.ts';
import { LogWriter } from './log-writer.ts';
import { Run, type AbortCause } from './run.ts';
import { checkedResult, type RunContext, type RunResult } from './run-result.ts';

/** Statements that store output of whatever runs, at once; the ones that were given up and are not answered included. */
const APPENDS_MAX = 3;

/** The effects that this process runs now. */
export class Runner {
  readonly #db: Kysely<DB>;
  readonly #clock: Clock;
  readonly #emit: (event: DispatchEvent) => void;
  readonly #run: (effect: ClaimedEffect, context: RunContext) => Promise<RunResult>;
  readonly #onEnded: (effect: ClaimedEffect, result: RunResult, cause: AbortCause | undefined) => void;
  readonly #running = new Map<bigint, Run>();
  readonly #logCalls: BoundedCalls;
  #allEnded: PromiseWithResolvers<void> | undefined;

  constructor(options: {
    db: Kysely<DB>;
    clock: Clock;
    emit: (event: DispatchEvent) => void;
    run: (effect: ClaimedEffect, context: RunContext) => Promise<RunResult>;
    onEnded: (effect: ClaimedEffect, result: RunResult, cause: AbortCause | undefined) => void;
  }) {
    this.#db = options.db;
    this.#clock = options.clock;
    this.#logCalls = new BoundedCalls(options.clock, APPENDS_MAX);
    this.#emit = options.emit;
    this.#run = options.run;
    this.#onEnded = options.onEnded;
  }

  get size(): number {
    return this.#running.size;
  }

  has(claimNumber: bigint): boolean {
    return this.#running.has(claimNumber);
  }

  start(effect: ClaimedEffect): void {
    const run = new Run(effect);
    this.#running.set(effect.claimNumber, run);
    const { effectId, claimNumber, repoId, attempt } = effect;
    this.#emit({ name: 'effect_started', effectId, claimNumber, repoId, attempt });
    void this.#follow(run);
  }

  abortAll(cause: AbortCause): void {
    for (const run of this.#running.values()) run.abort(cause);
  }

  /** Resolves when nothing runs. */
  async ended(): Promise<void> {
    if (this.#running.size > 0) await (this.#allEnded ??= Promise.withResolvers<void>()).promise;
  }

  /** Gives up waiting: removes and returns what still runs. Its results will not be looked at. */
  abandon(): ClaimedEffect[] {
    const effects = [...this.#running.values()].map((run) => run.effect);
    this.#running.clear();
    return effects;
  }

  async #follow(run: Run): Promise<void> {
    const { effect } = run;
    let log: LogWriter | undefined;
    const write = async (bytes: Uint8Array): Promise<void> => {
      // What comes after the end of the run is lost, as it is for a writer that has ended.
      if (log === undefined && !this.#running.has(effect.claimNumber)) return;
      log ??= new LogWriter({
        db: this.#db,
        clock: this.#clock,
        claim: effect,
        calls: this.#logCalls,
        emit: this.#emit,
      });
      await log.write(bytes);
    };
    let result: RunResult;
    try {
      const flush = async (): Promise<void> => await log?.flush();
      const context: RunContext = {
        get signal() {
          return run.signal;
        },
        log: write,
        flush,
      };
      result = checkedResult(await this.#run(effect, context));
    } catch (error) {
      result = { status: 'error', message: describeError(error) };
    }
    // Before the claim is closed: a closed claim takes no output.
    await log?.end();
    if (!this.#running.delete(effect.claimNumber)) return;
    this.#onEnded(effect, result, run.cause);
    if (this.#running.size > 0) return;
    this.#allEnded?.resolve();
    this.#allEnded = undefined;
  }
}
