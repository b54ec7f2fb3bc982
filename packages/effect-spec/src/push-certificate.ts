import { isUtf8 } from 'node:buffer';
import { publicKeyOf } from './ssh-public-key.ts';

/** What a signed push sends in place of its list of refs: nothing in it is trusted before its signature is. */
export interface PushCertificate {
  /** As git stores it: what is signed, and the signature. */
  bytes: Buffer;
  signed: Buffer;
  /** Armoured. */
  signature: string;
  /** URL that the client pushed to. */
  pushee: string;
  /** What the server advertised to it. */
  nonce: string;
  pushOptions: string[];
  commands: SignedCommand[];
}

/** What is asked for a ref. */
export interface SignedCommand {
  /** Zeros where there is no object. */
  oldOid: string;
  newOid: string;
  /** Raw bytes: a name need not be valid UTF-8. */
  name: Buffer;
}

/** What git takes for the beginning of a signature, of whatever kind, at the start of a line. */
const MARKER = /^-----BEGIN (?:PGP SIGNATURE|PGP MESSAGE|SIGNED MESSAGE|SSH SIGNATURE)-----/gm;
const SIGNATURE =
  /^-----BEGIN SSH SIGNATURE-----\n(?:[A-Za-z0-9+/=]{1,200}\n)+-----END SSH SIGNATURE-----\n?$/;
const COMMAND = /^([0-9a-f]{40}|[0-9a-f]{64}) ([0-9a-f]{40}|[0-9a-f]{64}) ([^]+)$/;

/**
 * Reads a push certificate, or says what is wrong with it. Stricter than git, which takes what stands before the last
 * signature for signed, and reads on over what it does not know: here there is one signature, made with an SSH key, and
 * nothing that has no meaning.
 */
export function parsePushCertificate(
  bytes: Buffer,
  { refsMax }: { refsMax: number },
): PushCertificate | string {
  const text = bytes.toString('latin1');
  if (text.includes('\0')) return 'expected a push certificate without NUL';
  const markers = [...text.matchAll(MARKER)];
  if (markers.length !== 1) {
    return `expected a push certificate with one signature, got ${markers.length === 0 ? 'none' : 'several'}`;
  }
  const at = markers[0]!.index;
  const signature = text.slice(at);
  if (!SIGNATURE.test(signature)) {
    return 'expected a push certificate that ends with an SSH signature: git config gpg.format ssh';
  }
  const signed = text.slice(0, at);
  const blank = signed.indexOf('\n\n');
  if (blank === -1 || !signed.endsWith('\n')) return 'expected a push certificate with a list of refs';
  const header = readHeader(signed.slice(0, blank).split('\n'));
  if (typeof header === 'string') return header;
  const commands = readCommands(signed.slice(blank + 2, -1).split('\n'), refsMax);
  if (typeof commands === 'string') return commands;
  return { bytes, signed: bytes.subarray(0, at), signature, commands, ...header };
}

function readHeader(lines: string[]): Pick<PushCertificate, 'pushee' | 'nonce' | 'pushOptions'> | string {
  if (lines.shift() !== 'certificate version 0.1') return 'expected a push certificate of version 0.1';
  const fields = new Map<string, string>();
  const pushOptions: string[] = [];
  for (const line of lines) {
    const [, name = '', value = ''] = /^([a-z-]+) ([^]*)$/.exec(line) ?? [];
    if (name === 'push-option') {
      const option = Buffer.from(value, 'latin1');
      if (!isUtf8(option)) return 'expected a push certificate with push options in UTF-8';
      pushOptions.push(option.toString('utf8'));
    } else if (!['pusher', 'pushee', 'nonce'].includes(name) || fields.has(name)) {
      return 'expected a push certificate with pusher, pushee and nonce, once each, and push options';
    } else fields.set(name, value);
  }
  const [pushee, nonce] = [fields.get('pushee'), fields.get('nonce')];
  if (pushee === undefined) return 'expected a push certificate that names the URL it is for';
  if (nonce === undefined) return 'expected a push certificate with the nonce of this server';
  return { pushee, nonce, pushOptions };
}

function readCommands(lines: readonly string[], refsMax: number): SignedCommand[] | string {
  if (lines.length > refsMax) {
    return `expected at most ${refsMax} refs in one push, got more. Push them in several parts.`;
  }
  const commands: SignedCommand[] = [];
  for (const line of lines) {
    const match = COMMAND.exec(line);
    if (match === null) return 'expected a push certificate with "<old> <new> <ref>" for each ref';
    commands.push({ oldOid: match[1]!, newOid: match[2]!, name: Buffer.from(match[3]!, 'latin1') });
  }
  return commands;
}

/** The public key that a signature names, before anything is proven; undefined if it names none. */
export function keyOfSignature(signature: string): string | undefined {
  const blob = Buffer.from(signature.split('\n').slice(1).join('').replace(/-.*$/, ''), 'base64');
  // PROTOCOL.sshsig: magic, version, then the key as a string.
  if (blob.length < 14 || blob.toString('latin1', 0, 6) !== 'SSHSIG') return undefined;
  const end = 14 + blob.readUInt32BE(10);
  return end > blob.length ? undefined : publicKeyOf(blob.subarray(14, end));
}
