import { parseCertificate, type Certificate } from './certificate.ts';
import { chomp, decodePkt, PktLineError } from './pkt-line.ts';

/** What a push asks for a ref, as the client sent it: nothing in it is trusted. */
export interface Command {
  oldOid: string;
  newOid: string;
  /** Raw bytes: a name need not be valid UTF-8. */
  name: Buffer;
}

export type ObjectFormat = 'sha1' | 'sha256';

/** Everything a client sends ahead of the pack. */
export interface Preamble {
  commands: Command[];
  capabilities: Set<string>;
  objectFormat: ObjectFormat;
  pushOptions: string[];
  /** A signed push: what was signed, which the commands are then read from. */
  certificate: Certificate | null;
  /** Length of the preamble: the pack, if any, begins here. */
  bytes: number;
}

export interface PreambleLimits {
  bytesMax: number;
  refsMax: number;
  pushOptionsMax: number;
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
 * {@link PreambleRefused} when a limit is passed or the push is one that this server does not take.
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
    if (!signed.take(packet, preamble)) takeCommand(packet, preamble, limits);
  });
  if (packets === 'incomplete') return null;
  if (packets === 0) return 'probe';
  signed.finish(preamble, limits);
  preamble.objectFormat = readObjectFormat(preamble);
  if (!preamble.capabilities.has('push-options')) return preamble;
  const options = readList(bytes, preamble, limits, (packet) => takePushOption(packet, preamble, limits));
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
    take(found.packet);
  }
}

const CERTIFICATE_BEGIN = 'push-cert';
const CERTIFICATE_END = 'push-cert-end\n';

/** Gathers the packets of a push certificate. */
class CertificateReader {
  #parts: Buffer[] | null = null;
  #isOpen = false;

  /** Takes a packet that belongs to a certificate; false if it does not. */
  take(packet: Buffer, preamble: Preamble): boolean {
    if (this.#isOpen) {
      if (packet.toString('latin1') === CERTIFICATE_END) this.#isOpen = false;
      else this.#parts!.push(packet);
      return true;
    }
    if (chomp(splitCapabilities(packet, preamble)).toString('latin1') !== CERTIFICATE_BEGIN) return false;
    if (this.#parts !== null) throw new PktLineError('expected one push certificate');
    this.#parts = [];
    this.#isOpen = true;
    return true;
  }

  /** Puts the certificate and its commands into the preamble. */
  finish(preamble: Preamble, { refsMax }: PreambleLimits): void {
    if (this.#parts === null) return;
    if (this.#isOpen) throw new PktLineError('expected push-cert-end');
    if (preamble.commands.length > 0) throw new PktLineError('expected signed refs alone');
    const certificate = parseCertificate(Buffer.concat(this.#parts), { refsMax });
    if (typeof certificate === 'string') throw new PreambleRefused(`${certificate}.`, preamble);
    preamble.certificate = certificate;
    preamble.commands = certificate.commands;
  }
}

/** The first packet of all also says what the client can do. */
function splitCapabilities(packet: Buffer, preamble: Preamble): Buffer {
  const nul = packet.indexOf(0);
  if (nul === -1 || preamble.commands.length > 0) return packet;
  const words = chomp(packet.subarray(nul + 1))
    .toString('latin1')
    .split(' ');
  preamble.capabilities = new Set(words.filter((word) => word !== ''));
  return packet.subarray(0, nul);
}

const COMMAND = /^([0-9a-f]{40}|[0-9a-f]{64}) ([0-9a-f]{40}|[0-9a-f]{64}) ([^]+)$/;

function takeCommand(packet: Buffer, preamble: Preamble, limits: PreambleLimits): void {
  const text = chomp(splitCapabilities(packet, preamble)).toString('latin1');
  // Whether a shallow clone may push is git's to say: it knows which commits are here already.
  if (/^shallow [0-9a-f]+$/.test(text)) return;
  const match = COMMAND.exec(text);
  if (match === null) throw new PktLineError('expected "<old> <new> <ref>"');
  // Git would read the name up to there.
  if (match[3]!.includes('\0')) throw new PktLineError('expected a ref name without NUL');
  if (preamble.commands.length === limits.refsMax) {
    throw new PreambleRefused(
      `expected at most ${limits.refsMax} refs in one push, got more. Push them in several parts.`,
      preamble,
    );
  }
  preamble.commands.push({ oldOid: match[1]!, newOid: match[2]!, name: Buffer.from(match[3]!, 'latin1') });
}

function readObjectFormat(preamble: Preamble): ObjectFormat {
  const named = [...preamble.capabilities].find((word) => word.startsWith('object-format='));
  const format = named === undefined ? 'sha1' : named.slice('object-format='.length);
  if (format !== 'sha1' && format !== 'sha256') {
    throw new PreambleRefused('expected object-format sha1 or sha256, got another one.', preamble);
  }
  const digits = format === 'sha1' ? 40 : 64;
  for (const { oldOid, newOid } of preamble.commands) {
    if (oldOid.length !== digits || newOid.length !== digits) {
      throw new PktLineError(`expected object names of ${digits} digits`);
    }
  }
  return format;
}

function takePushOption(packet: Buffer, preamble: Preamble, limits: PreambleLimits): void {
  if (preamble.pushOptions.length === limits.pushOptionsMax) {
    throw new PreambleRefused(`expected at most ${limits.pushOptionsMax} push options, got more.`, preamble);
  }
  preamble.pushOptions.push(chomp(packet).toString('utf8'));
}
