import { chomp, decodePkt, encodePkt, FLUSH, PktLineError } from './pkt-line.ts';
import type { Command } from './preamble.ts';
import { refLine, type RefReport } from './report-status.ts';

/** What git hands over to proc-receive. */
export interface HandedOver {
  commands: Command[];
  /** Raw bytes; none unless the client could send some. */
  pushOptions: Buffer[];
}

export interface Conversation {
  /** Git's side, as it comes. */
  input: AsyncIterable<Buffer>;
  /** Takes ours. */
  write: (bytes: Buffer) => void;
  /** Says what becomes of each ref. */
  decide: (push: HandedOver) => Promise<readonly RefReport[]>;
}

/** Speaks version 1 of git's proc-receive protocol until git has its reply; throws {@link PktLineError} for what is none. */
export async function answerProcReceive(conversation: Conversation): Promise<void> {
  const { input, write, decide } = conversation;
  const reader = new ProcReceiveReader();
  let hasGreeted = false;
  for await (const chunk of input) {
    const { isGreeted, handedOver } = reader.push(chunk);
    if (isGreeted && !hasGreeted) {
      hasGreeted = true;
      write(Buffer.concat([encodePkt(`version=1\0${reader.hasPushOptions ? 'push-options' : ''}`), FLUSH]));
    }
    if (handedOver === null) continue;
    write(procReceiveReply(await decide(handedOver)));
    return;
  }
}

/** Reads git's side of the conversation as it comes. */
export class ProcReceiveReader {
  #bytes: Buffer = Buffer.alloc(0);
  #expects: 'greeting' | 'commands' | 'push options' | 'nothing' = 'greeting';
  #hasPushOptions = false;
  readonly #handedOver: HandedOver = { commands: [], pushOptions: [] };

  /** Whether git offered a list of push options, and waits to be asked for it. */
  get hasPushOptions(): boolean {
    return this.#hasPushOptions;
  }

  /** Takes the next bytes and says what is complete by now: the greeting, everything, or neither. */
  push(chunk: Buffer): { isGreeted: boolean; handedOver: HandedOver | null } {
    this.#bytes = Buffer.concat([this.#bytes, chunk]);
    let offset = 0;
    while (this.#expects !== 'nothing') {
      const found = decodePkt(this.#bytes, offset);
      if (found === null) break;
      offset = found.next;
      this.#take(found.packet);
    }
    this.#bytes = this.#bytes.subarray(offset);
    return {
      isGreeted: this.#expects !== 'greeting',
      handedOver: this.#expects === 'nothing' ? this.#handedOver : null,
    };
  }

  #take(packet: Buffer | null): void {
    if (this.#expects === 'greeting') {
      if (packet === null) this.#expects = 'commands';
      else this.#greet(chomp(packet).toString('latin1'));
    } else if (this.#expects === 'commands') {
      if (packet !== null) this.#handedOver.commands.push(readCommand(chomp(packet)));
      else this.#expects = this.#hasPushOptions ? 'push options' : 'nothing';
    } else if (packet === null) {
      this.#expects = 'nothing';
    } else {
      this.#handedOver.pushOptions.push(Buffer.from(chomp(packet)));
    }
  }

  #greet(text: string): void {
    if (!text.startsWith('version=1')) throw new PktLineError('expected version=1 from git');
    const [, features = ''] = text.split('\0');
    this.#hasPushOptions = features.split(' ').includes('push-options');
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
