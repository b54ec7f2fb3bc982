import { isRetryable, sqlState, type DB } from '@sluice/db';
import { appendLog, type Claim } from '@sluice/queue-core/dispatcher';
import type { Kysely } from 'kysely';
import type { BoundedCalls } from './bounded-calls.ts';
import type { Clock } from './clock.ts';
import type { DispatchEvent } from './dispatch-event.ts';

const CHUNK_BYTES = 64 * 1024;
/** Output that one effect may have waiting to be stored before its writer has to wait. */
const BUFFER_BYTES_MAX = 4 * CHUNK_BYTES;
/** A reader sees output this much later than it was written, unless a chunk fills up before. */
const GATHER_MS = 200;
/** How long one chunk, or all that is left at the end, is tried for; then it is lost, and the numbering shows the gap. */
const STORE_BOUND_MS = 5_000;
const RETRY_MS = 200;

/**
 * Stores one run's output as numbered chunks. A run that writes faster than the database stores has to wait. A chunk
 * that cannot be stored in time is given up, its number with it, so that a reader sees the gap; the outcome of an
 * effect never waits long for its log.
 */
export class LogWriter {
  readonly #db: Kysely<DB>;
  readonly #clock: Clock;
  readonly #claim: Claim;
  readonly #calls: BoundedCalls;
  readonly #emit: (event: DispatchEvent) => void;
  readonly #ended = new AbortController();
  #buffer: Uint8Array[] = [];
  #bytes = 0;
  #seq = 0;
  #endBy = Infinity;
  #isStale = false;
  #isFlushing = false;
  #writing: Promise<void> | undefined;
  #full = new AbortController();
  #room: PromiseWithResolvers<void> | undefined;

  constructor(options: {
    db: Kysely<DB>;
    clock: Clock;
    claim: Claim;
    /** Shared by all runs: a stalled log table must not take every connection of the pool. */
    calls: BoundedCalls;
    emit: (event: DispatchEvent) => void;
  }) {
    this.#db = options.db;
    this.#clock = options.clock;
    this.#claim = options.claim;
    this.#calls = options.calls;
    this.#emit = options.emit;
  }

  /** Takes the bytes and resolves when there is room for more. Never rejects. */
  async write(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length; at += CHUNK_BYTES) {
      while (this.#bytes >= BUFFER_BYTES_MAX) await (this.#room ??= Promise.withResolvers<void>()).promise;
      if (this.#isStale || this.#ended.signal.aborted) return;
      // A copy, since the caller may reuse its buffer; `slice` of a Buffer would share its memory.
      const part = new Uint8Array(bytes.subarray(at, at + CHUNK_BYTES));
      this.#buffer.push(part);
      this.#bytes += part.length;
      if (this.#bytes >= CHUNK_BYTES) this.#full.abort();
      this.#writing ??= this.#pump();
    }
  }

  /** Stores what was written so far, within the same bound as the end; more may follow. */
  async flush(): Promise<void> {
    if (this.#ended.signal.aborted) return await this.#writing;
    this.#endBy = this.#clock.now() + STORE_BOUND_MS;
    this.#isFlushing = true;
    this.#full.abort();
    await this.#writing;
    this.#isFlushing = false;
    if (!this.#ended.signal.aborted) this.#endBy = Infinity;
  }

  /** Stores what is left and takes no more. Returns soon even if the database does not answer. */
  async end(): Promise<void> {
    this.#endBy = this.#clock.now() + STORE_BOUND_MS;
    this.#ended.abort();
    this.#full.abort();
    await this.#writing;
  }

  async #pump(): Promise<void> {
    while (this.#bytes > 0) {
      if (this.#bytes < CHUNK_BYTES && !this.#isFlushing && !this.#ended.signal.aborted) {
        this.#full = new AbortController();
        await this.#clock.sleep(GATHER_MS, this.#full.signal);
      }
      const chunk = this.#take();
      this.#seq += 1;
      await this.#store(this.#seq, chunk);
      this.#bytes -= chunk.length;
      this.#room?.resolve();
      this.#room = undefined;
    }
    this.#writing = undefined;
  }

  /** Whole writes up to the size of a chunk. */
  #take(): Uint8Array {
    let bytes = 0;
    let count = 0;
    for (const part of this.#buffer) {
      if (count > 0 && bytes + part.length > CHUNK_BYTES) break;
      bytes += part.length;
      count += 1;
    }
    return Buffer.concat(this.#buffer.splice(0, count));
  }

  async #store(seq: number, bytes: Uint8Array): Promise<void> {
    const bound = this.#clock.now() + STORE_BOUND_MS;
    for (;;) {
      if (this.#isStale) return;
      const deadline = Math.min(bound, this.#endBy);
      try {
        const left = Math.max(1, deadline - this.#clock.now());
        const append = () => appendLog(this.#db, this.#claim, [{ seq, bytes }]);
        this.#isStale = (await this.#calls.run(left, 'storing output', append)) === 'stale';
        return;
      } catch (error) {
        if (isPassing(error) && this.#clock.now() + RETRY_MS < deadline) {
          await this.#clock.sleep(RETRY_MS);
          continue;
        }
        this.#emit({
          name: 'log_chunk_lost',
          claimNumber: this.#claim.claimNumber,
          seq,
          bytes: bytes.length,
          error,
        });
        return;
      }
    }
  }
}

/** A check violation too: a partition attached in this moment refuses rows that were meant for the default one. */
function isPassing(error: unknown): boolean {
  return isRetryable(error) || sqlState(error) === '23514';
}
