import type { DB } from '@sluice/db';
import { dispatcherClaimsOf, dispatcherHandBack } from '@sluice/queue-core/dispatcher';
import type { Kysely } from 'kysely';
import { bounded, type Clock } from './clock.ts';
import type { DispatchEvent } from './dispatch-event.ts';

/** A call to the database that takes longer counts as failed. */
const CALL_BOUND_MS = 15_000;

/**
 * Finds open claims in our name that we know nothing of, because the answer to a claim was lost on the way, and hands
 * them back: our own heartbeat would protect them for ever.
 */
export class LostClaims {
  readonly #db: Kysely<DB>;
  readonly #clock: Clock;
  readonly #emit: (event: DispatchEvent) => void;
  readonly #isKnown: (claimNumber: bigint) => boolean;
  readonly #onHandedBack: (repoId: string, effectId: bigint) => void;
  #maySome = false;

  constructor(options: {
    db: Kysely<DB>;
    clock: Clock;
    emit: (event: DispatchEvent) => void;
    isKnown: (claimNumber: bigint) => boolean;
    onHandedBack: (repoId: string, effectId: bigint) => void;
  }) {
    this.#db = options.db;
    this.#clock = options.clock;
    this.#emit = options.emit;
    this.#isKnown = options.isKnown;
    this.#onHandedBack = options.onHandedBack;
  }

  /** There may be some: the next `recover` looks. */
  suspect(): void {
    this.#maySome = true;
  }

  /** Only between claims, since the answer to one that is under way is not lost yet. */
  async recover(dispatcherId: string): Promise<void> {
    if (!this.#maySome) return;
    const reading = dispatcherClaimsOf(this.#db, dispatcherId);
    const open = await bounded(this.#clock, CALL_BOUND_MS, 'reading own claims', reading);
    const lost = open.filter(({ claimNumber }) => !this.#isKnown(claimNumber));
    if (lost.length > 0) {
      const handing = dispatcherHandBack(this.#db, lost);
      const back = await bounded(this.#clock, CALL_BOUND_MS, 'handing back', handing);
      // Some of them may have been closed since the look.
      if (back.length > 0) this.#emit({ name: 'claims_recovered', count: back.length });
      for (const { repoId, effectId } of lost) this.#onHandedBack(repoId, effectId);
    }
    this.#maySome = false;
  }
}
