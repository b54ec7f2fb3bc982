import { parsePushCertificate, type PushCertificate } from '@sluice/effect-spec';
import { checkPushOption, type ObjectFormat } from '@sluice/ref-store';
import { chomp, decodePkt, PktLineError } from './pkt-line.ts';

/** What a push asks for a ref, as the client sent it: nothing in it is trusted. */
export interface Command {
  oldOid: string;
  newOid: string;
  /** Raw bytes: a name need not be valid UTF-8. */
  name: Buffer;
}

/** Everything a client sends ahead of the pack. */
export interface Preamble {
  commands: Command[];
  /** Names of what the client can do, without their values. */
  capabilities: Set<string>;
  objectFormat: ObjectFormat;
  pushOptions: string[];
  /** A signed push: what was signed, which the commands are then read from. */
  certificate: PushCertificate | null;
  /** Length of the preamble: the pack, if any, begins here. */
  bytes: number;
}

export interface PreambleLimits {
  bytesMax: number;
  refsMax: number;
}

/** A push that is understood and not taken; the message goes to the client, in the form it asked for. */
export class PreambleRefused extends Error {
  override readonly name = 'PreambleRefused';
  readonly commands: readonly Command[];
  readonly capabilities: ReadonlySet<string>;

  constructor(message: string, soFar: Pick<Preamble, 'commands' | 'capabilities'>) {
    super(message);
    this.commands = soFar.commands;
    this.capabilities = soFar.capabilities;
  }
}

/**
 * Reads the preamble at the start of `bytes`: commands, flush, and the push options if the client announced them.
 * Returns null while more bytes are needed, and `probe` for the lone flush that git sends ahead of a large push to
 * see whether it is let in. Throws {@link PktLineError} for what can never become a preamble, and
 * {@link PreambleRefused} when a limit is passed or the push is one that this server does not take. What it accepts,
 * git reads in the same way: where git is lax, it is strict.
 */
export function parsePreamble(bytes: Buffer, limits: PreambleLimits): Preamble | 'probe' | null {
  const preamble: Preamble = {
    commands: [],
    capabilities: new Set(),
    objectFormat: 'sha1',
    pushOptions: [],
    certificate: null,
    bytes: 0,
  };
  const signed = new CertificateReader();
  const packets = readList(bytes, preamble, limits, (packet) => {
    if (!signed.take(packet, preamble, limits)) takeCommand(packet, preamble, limits);
  });
  if (packets === 'incomplete') return null;
  if (packets === 0) return 'probe';
  signed.finish(preamble, limits);
  if (preamble.commands.length === 0) throw new PktLineError('expected a list of refs, got none');
  requireDigits(preamble);
  if (!preamble.capabilities.has('push-options')) return preamble;
  const options = readList(bytes, preamble, limits, (packet) => takePushOption(packet, preamble));
  return options === 'incomplete' ? null : preamble;
}

/** Hands each packet up to the next flush to `take`; returns how many there were. */
function readList(
  bytes: Buffer,
  preamble: Preamble,
  limits: PreambleLimits,
  take: (packet: Buffer) => void,
): number | 'incomplete' {
  for (let count = 0; ; count += 1) {
    const found = decodePkt(bytes, preamble.bytes);
    if ((found?.next ?? bytes.length) > limits.bytesMax) {
      throw new PreambleRefused(
        `expected a list of refs of at most ${limits.bytesMax} bytes, got more. Push them in several parts.`,
        preamble,
      );
    }
    if (found === null) return 'incomplete';
    preamble.bytes = found.next;
    if (found.packet === null) return count;
    // Git takes it for the other side's last words, wherever it comes.
    if (found.packet.toString('latin1', 0, 4) === 'ERR ') throw new PktLineError('expected a push, got ERR');
    take(found.packet);
  }
}

const CERTIFICATE_BEGIN = 'push-cert';
const CERTIFICATE_END = 'push-cert-end\n';

/** Packets of a certificate that are no refs: header, push options and signature. Git sends a line in each. */
const CERTIFICATE_PACKETS_MAX = 1000;

/** Gathers the packets of a push certificate. */
class CertificateReader {
  #parts: Buffer[] | null = null;
  #isOpen = false;

  /** Takes a packet that belongs to a certificate; false if it does not. */
  take(packet: Buffer, preamble: Preamble, { refsMax }: PreambleLimits): boolean {
    if (this.#isOpen) {
      if (packet.toString('latin1') === CERTIFICATE_END) this.#isOpen = false;
      else if (this.#parts!.push(packet) > refsMax + CERTIFICATE_PACKETS_MAX)
        throw tooManyRefs(refsMax, preamble);
      return true;
    }
    const { line, capabilities } = splitPacket(packet);
    if (line !== CERTIFICATE_BEGIN) return false;
    if (this.#parts !== null) throw new PktLineError('expected one push certificate');
    takeCapabilities(capabilities, preamble);
    this.#parts = [];
    this.#isOpen = true;
    return true;
  }

  /** Puts the certificate and its commands into the preamble. */
  finish(preamble: Preamble, { refsMax }: PreambleLimits): void {
    if (this.#parts === null) return;
    if (this.#isOpen) throw new PktLineError('expected push-cert-end');
    if (preamble.commands.length > 0) throw new PktLineError('expected signed refs alone');
    const certificate = parsePushCertificate(Buffer.concat(this.#parts), { refsMax });
    if (typeof certificate === 'string') throw new PreambleRefused(`${certificate}.`, preamble);
    preamble.certificate = certificate;
    preamble.commands = certificate.commands;
  }
}

/** A packet's line ends where git sees its end; what the client can do may follow. Latin1 stands for bytes. */
function splitPacket(packet: Buffer): { line: string; capabilities: string | null } {
  const text = chomp(packet).toString('latin1');
  const nul = text.indexOf('\0');
  return nul === -1
    ? { line: text, capabilities: null }
    : { line: text.slice(0, nul), capabilities: text.slice(nul + 1) };
}

/** Git looks for names between blanks of any kind, up to a NUL, and takes the first of several values. */
function takeCapabilities(text: string | null, preamble: Preamble): void {
  if (text === null) return;
  if (/[\0-\x1f]/.test(text)) throw new PktLineError('expected capabilities without control characters');
  const words = text.split(' ').map((word) => word.split('=', 2) as [name: string, value?: string]);
  preamble.capabilities = new Set(words.map(([name]) => name).filter((name) => name !== ''));
  const format = words.find(([name]) => name === 'object-format');
  if (format !== undefined) preamble.objectFormat = readObjectFormat(format[1], preamble);
}

function readObjectFormat(value: string | undefined, preamble: Preamble): ObjectFormat {
  if (value === 'sha1' || value === 'sha256') return value;
  throw new PreambleRefused('expected object-format sha1 or sha256, got another one.', preamble);
}

const SHALLOW = /^shallow (?:[0-9a-f]{40}|[0-9a-f]{64})$/;
const COMMAND = /^([0-9a-f]{40}|[0-9a-f]{64}) ([0-9a-f]{40}|[0-9a-f]{64}) ([^]+)$/;

function takeCommand(packet: Buffer, preamble: Preamble, limits: PreambleLimits): void {
  const { line, capabilities } = splitPacket(packet);
  // Whether a shallow clone may push is git's to say: it knows which commits are here already.
  if (SHALLOW.test(line) && capabilities === null) return;
  const match = COMMAND.exec(line);
  if (match === null) throw new PktLineError('expected "<old> <new> <ref>"');
  if (preamble.commands.length === 0) takeCapabilities(capabilities, preamble);
  // Git would read the name up to there.
  else if (capabilities !== null) throw new PktLineError('expected a ref name without NUL');
  if (preamble.commands.length === limits.refsMax) throw tooManyRefs(limits.refsMax, preamble);
  preamble.commands.push({ oldOid: match[1]!, newOid: match[2]!, name: Buffer.from(match[3]!, 'latin1') });
}

function tooManyRefs(refsMax: number, preamble: Preamble): PreambleRefused {
  const message = `expected at most ${refsMax} refs in one push, got more. Push them in several parts.`;
  return new PreambleRefused(message, preamble);
}

function requireDigits({ commands, objectFormat }: Preamble): void {
  const digits = objectFormat === 'sha1' ? 40 : 64;
  for (const { oldOid, newOid } of commands) {
    if (oldOid.length === digits && newOid.length === digits) continue;
    throw new PktLineError(`expected object names of ${digits} digits`);
  }
}

function takePushOption(packet: Buffer, preamble: Preamble): void {
  const option = chomp(packet);
  const fault = checkPushOption(option, preamble.pushOptions.length);
  if (fault !== null) throw new PreambleRefused(`${fault}.`, preamble);
  preamble.pushOptions.push(option.toString('utf8'));
}
