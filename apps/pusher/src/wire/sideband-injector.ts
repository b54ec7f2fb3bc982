import { Transform, type TransformCallback } from 'node:stream';
import { pktLength } from './pkt-line.ts';
import { progress } from './report-status.ts';

/** Begins a packet that a client shows, and that is no part of the report. */
const BAND_SAID = '\u0002';

/**
 * Passes git's answer to the client and puts lines of our own between its packets, so that they are printed as
 * `remote: …` ahead of the report. Holds no more than one unfinished packet header. A client without side-band gets
 * git's answer unchanged.
 */
export class SidebandInjector extends Transform {
  readonly #isBanded: boolean;
  readonly #onSaid: (text: string) => void;
  #waiting: string[] = [];
  /** Bytes of the current packet that are still to come. */
  #left = 0;
  #header: Buffer = Buffer.alloc(0);
  /** The current packet so far. */
  #packet = '';
  #isEnded = false;

  /** `onSaid` hears what git says to the client, and may have lines shown right behind it. */
  constructor(isBanded: boolean, onSaid: (text: string) => void = () => {}) {
    super();
    this.#isBanded = isBanded;
    this.#onSaid = onSaid;
  }

  /** Whether git's last packet has passed. */
  get hasEnded(): boolean {
    return this.#isEnded;
  }

  /** Shows lines at the next packet boundary. Lines that come after git's last packet are dropped. */
  show(lines: readonly string[]): void {
    if (!this.#isBanded || this.#isEnded) return;
    this.#waiting.push(...lines);
    if (this.#left === 0 && this.#header.length === 0) this.#showWaiting();
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    if (!this.#isBanded) return done(null, chunk);
    try {
      this.#scan(chunk);
      done();
    } catch (error) {
      done(error as Error);
    }
  }

  #scan(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length) {
      if (this.#left > 0) {
        const part = chunk.subarray(at, at + this.#left);
        at += part.length;
        this.#left -= part.length;
        this.push(part);
        this.#packet += part.toString('latin1');
        if (this.#left === 0 && this.#packet.startsWith(BAND_SAID)) this.#onSaid(this.#packet.slice(1));
        continue;
      }
      const missing = chunk.subarray(at, at + 4 - this.#header.length);
      at += missing.length;
      this.#header = Buffer.concat([this.#header, missing]);
      if (this.#header.length === 4) this.#beginPacket();
    }
  }

  #beginPacket(): void {
    const length = pktLength(this.#header, 0);
    this.#showWaiting();
    if (length === 0) this.#isEnded = true;
    this.push(this.#header);
    this.#left = length === 0 ? 0 : length - 4;
    this.#packet = '';
    this.#header = Buffer.alloc(0);
  }

  #showWaiting(): void {
    for (const line of this.#waiting) for (const packet of progress(line)) this.push(packet);
    this.#waiting = [];
  }
}
