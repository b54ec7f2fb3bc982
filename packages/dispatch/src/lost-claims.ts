import type { DB } from '@sluice/db';
import { dispatcherClaimsOf, dispatcherHandBack } from '@sluice/queue-core/dispatcher';
import type { Kysely } from 'kysely';
import { BoundedCalls } from './bounded-calls.ts';
import type { Clock } from './clock.ts';
import type { DispatchEvent } from './dispatch-event.ts';

/** A call to the database that takes longer counts as failed. */
const CALL_BOUND_MS = 15_000;

/**
 * Finds open claims in our name that we know nothing of, because the answer to a claim was lost on the way, and hands
 * them back: our own heartbeat would protect them for ever.
 */
export class LostClaims {
  readonly #db: Kysely<DB>;
  readonly #calls: BoundedCalls;
  readonly #emit: (event: DispatchEvent) => void;
  readonly #isKnown: (claimNumber: bigint) => boolean;
  readonly #onHandedBack: (repoId: string, effectId: bigint) => void;
  #areSuspected = false;

  constructor(options: {
    db: Kysely<DB>;
    clock: Clock;
    emit: (event: DispatchEvent) => void;
    isKnown: (claimNumber: bigint) => boolean;
    onHandedBack: (repoId: string, effectId: bigint) => void;
  }) {
    this.#db = options.db;
    this.#calls = new BoundedCalls(options.clock);
    this.#emit = options.emit;
    this.#isKnown = options.isKnown;
    this.#onHandedBack = options.onHandedBack;
  }

  /** There may be some: the next `recover` looks. */
  suspect(): void {
    this.#areSuspected = true;
  }

  /** Only between claims, since the answer to one that is under way is not lost yet. */
  async recover(dispatcherId: string): Promise<void> {
    if (!this.#areSuspected) return;
    const open = await this.#calls.run(CALL_BOUND_MS, 'reading own claims', () =>
      dispatcherClaimsOf(this.#db, dispatcherId),
    );
    const lost = open.filter(({ claimNumber }) => !this.#isKnown(claimNumber));
    if (lost.length > 0) {
      const back = await this.#calls.run(CALL_BOUND_MS, 'handing back', () =>
        dispatcherHandBack(this.#db, lost),
      );
      // Some of them may have been closed since the look.
      if (back.length > 0) this.#emit({ name: 'claims_recovered', count: back.length });
      for (const { repoId, effectId } of lost) this.#onHandedBack(repoId, effectId);
    }
    this.#areSuspected = false;
  }
}
