import { pipeline, type Readable } from 'node:stream';
import { NO_ROOM, saysNoRoom } from '../git/no-room.ts';
import { startGit, type GitProcess } from '../git/start-git.ts';
import { HOOK_PIPES, LIST_END, VERDICT_OK } from '../git/write-hooks.ts';
import { writeTo } from '../git/write-to.ts';
import { HttpError } from '../http-error.ts';
import { PktLineError } from '../wire/pkt-line.ts';
import type { Command } from '../wire/preamble.ts';
import { answerProcReceive, readCommand, type HandedOver } from '../wire/proc-receive.ts';
import type { RefReport } from '../wire/report-status.ts';
import { SidebandInjector } from '../wire/sideband-injector.ts';

export interface ReceivePackOptions {
  folder: string;
  env: Record<string, string>;
  isBanded: boolean;
  /** The client's bytes, from the first on. Ends with an error if the client leaves before it has sent everything. */
  input: AsyncIterable<Buffer>;
  /** Gets git's answer as it comes, with the lines of {@link Decision} in it. */
  onOutput: (chunk: Buffer) => void;
  /** Git's own list, before the objects leave quarantine. A text refuses the push and is shown to the client. */
  onPreReceive: (push: Quarantined) => Promise<string | null>;
  /**
   * What git hands over once the objects are in place: decides the push. Called only after the client has sent
   * everything; from then on git is left to finish, whoever leaves.
   */
  onProcReceive: (push: HandedOver) => Promise<Decision>;
  /** Longest time until the decision begins. */
  timeoutMs: number;
  /** Most memory of git and of each process that it starts. */
  memoryBytesMax: number;
}

/** A push whose objects git has checked, and not yet put into the repository. */
export interface Quarantined {
  commands: Command[];
  certificate: CertificateFacts;
  /** The name of the folder in `objects` that holds them; null: it brings none, since it only deletes. */
  quarantine: string | null;
}

/** What git found out about a push certificate; empty texts if there was none. */
export interface CertificateFacts {
  oid: string;
  nonceStatus: string;
}

export interface Decision {
  reports: RefReport[];
  /** Shown to the client ahead of the report. */
  lines: readonly string[];
}

/** How a push ended, once git has ended. */
export interface ReceivePackEnd {
  exitCode: number | null;
  /** Whether the client was given a whole answer. */
  isAnswered: boolean;
  /** What git said last, to the client and beside it. */
  errors: string;
  /** Why the client's bytes were not complete. */
  inputError: Error | null;
}

/** Runs `git receive-pack` for one push and decides, through its hooks, what becomes of it. */
export async function runReceivePack(options: ReceivePackOptions): Promise<ReceivePackEnd> {
  const git = await startGit({
    args: ['receive-pack', '--stateless-rpc', options.folder],
    env: options.env,
    pipes: Object.keys(HOOK_PIPES).length,
    memoryBytesMax: options.memoryBytesMax,
  });
  const deadline = setTimeout(() => git.end('SIGTERM'), options.timeoutMs);
  let said = '';
  const injector = new SidebandInjector(options.isBanded, (text) => {
    said = (said + text).slice(-SAID_CHARACTERS_MAX);
    if (saysNoRoom(text)) injector.show([NO_ROOM]);
  });
  const input = feed(git, injector, options.input);
  const output = copyOutput(git, injector, options.onOutput);
  const conversations = [
    servePreReceive(git, injector, options),
    serveProcReceive(git, async (push) => {
      // Git has the whole pack by now. Whatever follows it is dropped, and must not keep the client from finishing.
      git.stdin.destroy();
      const inputError = await input;
      if (inputError !== null)
        return { reports: push.commands.map(({ name }) => ({ name, reason: 'the client left' })), lines: [] };
      clearTimeout(deadline);
      const decision = await options.onProcReceive(push);
      injector.show(decision.lines);
      return decision;
    }),
  ];
  // A hook that is not understood gets no answer, and would wait for one until the deadline.
  const hooks = Promise.all(conversations.map((one) => one.catch(() => git.end('SIGTERM'))));
  try {
    await output;
    const exitCode = await git.exited;
    const inputError = await input;
    const isAnswered = options.isBanded ? injector.hasEnded : exitCode === 0;
    return { exitCode, isAnswered, errors: git.errors() + said, inputError };
  } finally {
    clearTimeout(deadline);
    git.end('SIGKILL');
    for (const pipe of git.pipes) pipe.destroy();
    await hooks;
  }
}

/** What git said to the client last, for the log. */
const SAID_CHARACTERS_MAX = 2000;

/** Most bytes that are still read when git reads no more: enough for a client that is nearly done to get to its end. */
const DROPPED_BYTES_MAX = 4 * 1024 * 1024;

/**
 * Hands the client's bytes to git, no faster than it takes them. Returns what went wrong with them, or null. What the
 * client may know of it is shown to it.
 */
async function feed(
  git: GitProcess,
  injector: SidebandInjector,
  input: AsyncIterable<Buffer>,
): Promise<Error | null> {
  let dropped = 0;
  try {
    for await (const chunk of input) {
      if (git.stdin.destroyed) dropped += chunk.length;
      if (dropped > DROPPED_BYTES_MAX) return null;
      await writeTo(git.stdin, chunk);
    }
    return null;
  } catch (error) {
    if (error instanceof HttpError) injector.show([error.message]);
    return error as Error;
  } finally {
    // After an error git sees the end of its input in the middle of a pack, and refuses it.
    git.stdin.end();
  }
}

async function copyOutput(
  git: GitProcess,
  injector: SidebandInjector,
  onOutput: (chunk: Buffer) => void,
): Promise<void> {
  // Not `pipe`: it would leave the injector waiting for ever if git's output broke off.
  pipeline(git.stdout, injector, () => {});
  try {
    for await (const chunk of injector as AsyncIterable<Buffer>) onOutput(chunk);
  } catch {
    // Not a packet: git died in the middle of one. Its exit code says the rest; it must not wait for a reader.
    git.stdout.resume();
  }
}

async function servePreReceive(
  git: GitProcess,
  injector: SidebandInjector,
  { onPreReceive }: ReceivePackOptions,
): Promise<void> {
  const answer = git.pipes[HOOK_PIPES.toPreReceive]!;
  let text: Buffer = Buffer.alloc(0);
  const end = Buffer.from(`\n${LIST_END}\n`);
  for await (const chunk of git.pipes[HOOK_PIPES.fromPreReceive] as Readable as AsyncIterable<Buffer>) {
    text = Buffer.concat([text, chunk]);
    if (!text.subarray(-end.length).equals(end)) continue;
    const lineEnd = text.indexOf(0x0a);
    const { quarantine, certificate } = readFacts(text.subarray(0, lineEnd));
    const list = text.subarray(lineEnd + 1, Math.max(lineEnd + 1, text.length - end.length));
    const refusal = await onPreReceive({ commands: readList(list), certificate, quarantine });
    if (refusal !== null) injector.show([refusal]);
    answer.end(refusal === null ? `${VERDICT_OK}\n` : 'refused\n');
  }
}

/** Reads `<quarantine> <certificate> <nonce status>`. */
function readFacts(line: Buffer): Pick<Quarantined, 'certificate' | 'quarantine'> {
  const space = line.indexOf(0x20);
  const name = line.toString('latin1', 0, Math.max(0, space));
  if (!/^(?:(?:tmp_objdir-)?incoming-\w+)?$/.test(name))
    throw new PktLineError('expected the name of a quarantine, or none, from pre-receive');
  return {
    quarantine: name === '' ? null : name,
    certificate: readCertificateFacts(line.subarray(space + 1)),
  };
}

/** Reads `<certificate> <nonce status>`, as pre-receive writes it. */
export function readCertificateFacts(line: Buffer): CertificateFacts {
  const facts = /^([0-9a-f]*) ([A-Z]*)$/.exec(line.toString('latin1'));
  if (facts === null) throw new PktLineError('expected "<certificate> <nonce status>" from pre-receive');
  const [, oid = '', nonceStatus = ''] = facts;
  return { oid, nonceStatus };
}

/** Reads git's list of commands, as pre-receive is given it. */
export function readList(text: Buffer): Command[] {
  const commands: Command[] = [];
  for (let at = 0; at < text.length;) {
    const end = text.indexOf(0x0a, at);
    const line = text.subarray(at, end === -1 ? text.length : end);
    commands.push(readCommand(line));
    at += line.length + 1;
  }
  return commands;
}

async function serveProcReceive(
  git: GitProcess,
  decide: (push: HandedOver) => Promise<Decision>,
): Promise<void> {
  const answer = git.pipes[HOOK_PIPES.toProcReceive]!;
  await answerProcReceive({
    input: git.pipes[HOOK_PIPES.fromProcReceive] as Readable as AsyncIterable<Buffer>,
    write: (bytes) => void answer.write(bytes),
    decide: async (push) => (await decide(push)).reports,
  });
  // The hook copies to the end.
  answer.end();
}
