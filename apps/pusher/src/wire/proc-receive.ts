import { chomp, decodePkt, encodePkt, FLUSH, PktLineError } from './pkt-line.ts';
import type { Command } from './preamble.ts';
import { refLine, type RefReport } from './report-status.ts';

/** Accepts version 1 of git's proc-receive protocol without any of its features. */
export const PROC_RECEIVE_HELLO = Buffer.concat([encodePkt('version=1\0'), FLUSH]);

/** Reads git's side of the proc-receive conversation as it comes. */
export class ProcReceiveReader {
  #bytes: Buffer = Buffer.alloc(0);
  #isGreeted = false;
  readonly #commands: Command[] = [];

  /** Takes the next bytes and says what is complete by now: the greeting, the list of commands, or neither. */
  push(chunk: Buffer): { isGreeted: boolean; commands: Command[] | null } {
    this.#bytes = Buffer.concat([this.#bytes, chunk]);
    let offset = 0;
    let isComplete = false;
    while (!isComplete) {
      const found = decodePkt(this.#bytes, offset);
      if (found === null) break;
      offset = found.next;
      isComplete = this.#take(found.packet);
    }
    this.#bytes = this.#bytes.subarray(offset);
    return { isGreeted: this.#isGreeted, commands: isComplete ? this.#commands : null };
  }

  /** Returns whether that was the end of the list. */
  #take(packet: Buffer | null): boolean {
    if (this.#isGreeted) {
      if (packet === null) return true;
      this.#commands.push(readCommand(chomp(packet)));
    } else if (packet === null) {
      this.#isGreeted = true;
    } else if (!packet.toString('latin1').startsWith('version=1')) {
      throw new PktLineError('expected version=1 from git');
    }
    return false;
  }
}

/** The reply: one `ok` or `ng` per ref, in the order given. */
export function procReceiveReply(refs: readonly RefReport[]): Buffer {
  return Buffer.concat([...refs.map((ref) => encodePkt(refLine(ref))), FLUSH]);
}

/** Reads `<old> <new> <ref>` as git writes it to its hooks. */
export function readCommand(line: Buffer): Command {
  const first = line.indexOf(0x20);
  const second = line.indexOf(0x20, first + 1);
  if (first === -1 || second === -1) throw new PktLineError('expected "<old> <new> <ref>" from git');
  return {
    oldOid: line.toString('latin1', 0, first),
    newOid: line.toString('latin1', first + 1, second),
    name: Buffer.from(line.subarray(second + 1)),
  };
}
