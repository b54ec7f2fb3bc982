import { StringDecoder } from 'node:string_decoder';
import { printable, type Output } from './terminal.ts';

/** A piece of an effect's output, as stored. */
export interface LogPiece {
  readonly claimNumber: bigint;
  readonly attempt: number;
  /** Position within its run, from 1. */
  readonly seq: number;
  readonly bytes: Uint8Array;
}

/** An escape sequence or a line end that the next piece completes. */
// oxlint-disable-next-line no-control-regex -- an escape sequence starts with a control character
const UNFINISHED = /(?:\u001b(?:\[[0-?]*[ -/]*|\][^\u0007\u001b]{0,200})?|\r)$/;

/**
 * Shows pieces of output in order, with a line before each run that names the attempt, and one where pieces are
 * missing. A file or pipe gets the bytes as they are; a terminal gets text that cannot touch it, also where a character
 * or an escape sequence is cut in two.
 */
export class LogPrinter {
  readonly #output: Output;
  #claimNumber: bigint | undefined;
  #attempt = 0;
  #lastSeq = 0;
  #decoder = new StringDecoder('utf8');
  #held = '';
  #isAtLineStart = true;

  constructor(output: Output) {
    this.#output = output;
  }

  print(piece: LogPiece): void {
    if (piece.claimNumber !== this.#claimNumber) {
      this.end();
      const isAgain = piece.attempt === this.#attempt;
      this.#claimNumber = piece.claimNumber;
      this.#attempt = piece.attempt;
      this.#lastSeq = 0;
      // A dispatcher that stops hands back what it runs, and no attempt is spent.
      const again = isAgain ? ', once more: it was handed back' : '';
      this.#output.write(`--- attempt ${piece.attempt} (claim ${piece.claimNumber})${again} ---\n`);
    }
    const missing = piece.seq - this.#lastSeq - 1;
    this.#lastSeq = piece.seq;
    if (missing > 0) {
      this.end();
      this.#output.write(`--- output was lost here: ${missing} ${missing === 1 ? 'piece' : 'pieces'} ---\n`);
    }
    if (this.#output.isTTY === true) {
      this.#show(this.#decoder.write(Buffer.from(piece.bytes)));
    } else if (piece.bytes.length > 0) {
      this.#output.write(piece.bytes);
      this.#isAtLineStart = piece.bytes.at(-1) === 0x0a;
    }
  }

  /** Shows what was held back and ends the last line. */
  end(): void {
    this.#show(this.#decoder.end());
    this.#write(this.#held);
    this.#held = '';
    if (!this.#isAtLineStart) this.#output.write('\n');
    this.#isAtLineStart = true;
  }

  #show(text: string): void {
    const all = this.#held + text;
    this.#held = UNFINISHED.exec(all)?.[0] ?? '';
    this.#write(all.slice(0, all.length - this.#held.length));
  }

  #write(text: string): void {
    const shown = printable(text);
    if (shown === '') return;
    this.#output.write(shown);
    this.#isAtLineStart = shown.endsWith('\n');
  }
}
