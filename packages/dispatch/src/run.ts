import type { ClaimedEffect } from '@sluice/queue-core/dispatcher';

/** Why a run was told to end. */
export type AbortCause = 'stopping' | 'claim_lost';

/** An effect that this process runs now. */
export class Run {
  readonly effect: ClaimedEffect;
  /** Absent until somebody asks for the signal: a quick effect never does, and an AbortController costs more than it. */
  #controller: AbortController | undefined;
  #cause: AbortCause | undefined;

  constructor(effect: ClaimedEffect) {
    this.effect = effect;
  }

  /** Why it was told to end; the first cause counts. */
  get cause(): AbortCause | undefined {
    return this.#cause;
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#cause !== undefined) this.#controller.abort(reasonOf(this.#cause));
    }
    return this.#controller.signal;
  }

  abort(cause: AbortCause): void {
    this.#cause ??= cause;
    this.#controller?.abort(reasonOf(this.#cause));
  }
}

function reasonOf(cause: AbortCause): Error {
  return new Error(cause === 'stopping' ? 'The dispatcher is stopping' : 'The claim is lost');
}
