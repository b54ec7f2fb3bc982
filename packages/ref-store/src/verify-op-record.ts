import { hashObject } from './hash-object.ts';
import { SIGNATURE_HEADER } from './op-record.ts';
import { formatOf, type Oid } from './oid.ts';
import { sshVerify } from './ssh-signature.ts';

export type OpRecordCheck =
  | {
      status: 'valid';
      /** The key that signed it: `ssh-ed25519 AAAA…`. */
      publicKey: string;
      /** Previous record, as the signature covers it. */
      parent: Oid | null;
      tree: Oid;
      repoId: string;
      seq: bigint;
      signer: string | null;
      /** When it was signed, in seconds since 1970, by the database clock. */
      seconds: bigint;
      /** Why the push caused no effects; null: it caused those that its definitions ask for. */
      noEffects: string | null;
      /** What `git push -o` said, in its order. */
      pushOptions: string[];
      /** Armoured, as in its header. */
      signature: string;
    }
  | { status: 'invalid'; reason: string };

export interface VerifyOpRecordOptions {
  pushId: Oid;
  /** Bytes of the commit, signature included. */
  body: Uint8Array;
  /** Keys that may have signed it: `ssh-ed25519 AAAA…`, comments allowed. */
  trustedKeys: readonly string[];
}

/**
 * Checks that the bytes are the op record that the push id names, and that one of the trusted keys signed them. What
 * `git verify-commit` checks, without git. Compare `parent`, `repoId` and `seq` with what the log should hold.
 */
export function verifyOpRecord({ pushId, body, trustedKeys }: VerifyOpRecordOptions): OpRecordCheck {
  const format = formatOf(pushId);
  if (hashObject(format, 'commit', body) !== pushId) return invalid('the bytes do not hash to the push id');
  const text = Buffer.from(body).toString('utf8');
  const end = text.indexOf('\n\n');
  if (end === -1) return invalid('the bytes are not a commit');
  const headers = parseHeaders(text.slice(0, end));
  const signature = headers.pop()!;
  if (signature.key !== SIGNATURE_HEADER[format]) return invalid('the record is not signed');
  const unsigned = headers.map((header) => header.raw);
  const message = text.slice(end);
  const signed = sshVerify(Buffer.from(unsigned.join('\n') + message), signature.value);
  if (signed === undefined) return invalid('the signature does not match the record');
  const publicKey = `ssh-ed25519 ${signed.toString('base64')}`;
  const isTrusted = trustedKeys.some((key) => key.trim().split(/\s+/).slice(0, 2).join(' ') === publicKey);
  if (!isTrusted) return invalid('the record is signed by a key that is not trusted');
  const value = (name: string): string | undefined => headers.find(({ key }) => key === name)?.value;
  const trailers = trailersOf(message);
  const tree = value('tree');
  const [repoId, seq] = [trailer(trailers, 'Repo'), trailer(trailers, 'Seq')];
  if (tree === undefined || repoId === undefined || seq === undefined || !/^[1-9][0-9]{0,17}$/.test(seq)) {
    return invalid('the commit is not an op record');
  }
  const seconds = / (\d{1,18}) \+0000$/.exec(value('committer') ?? '')?.[1];
  if (seconds === undefined) return invalid('the commit is not an op record');
  return {
    status: 'valid',
    publicKey,
    parent: value('parent') ?? null,
    tree,
    repoId,
    seq: BigInt(seq),
    signer: trailer(trailers, 'Pushed-by') ?? null,
    seconds: BigInt(seconds),
    noEffects: trailer(trailers, 'No-effects') ?? null,
    pushOptions: pushOptionsIn(trailers),
    signature: signature.value,
  };
}

interface Header {
  key: string;
  value: string;
  raw: string;
}

/** A header's value may span lines: each further one begins with a space. */
function parseHeaders(text: string): Header[] {
  return text.split(/\n(?! )/).map((raw) => {
    const space = raw.indexOf(' ');
    return { key: raw.slice(0, space), value: raw.slice(space + 1).replaceAll('\n ', '\n'), raw };
  });
}

type Trailers = readonly (readonly [name: string, value: string])[];

/** The last paragraph only: what stands above it is free text. Blanks at the end of a line belong to it. */
function trailersOf(message: string): Trailers {
  const last = message.replace(/\n+$/, '').split('\n\n').at(-1) ?? '';
  return last.split('\n').map((line) => {
    const colon = line.indexOf(': ');
    return [line.slice(0, colon), line.slice(colon + 2)];
  });
}

function trailer(trailers: Trailers, wanted: string): string | undefined {
  return trailers.findLast(([name]) => name === wanted)?.[1];
}

function pushOptionsIn(trailers: Trailers): string[] {
  return trailers.flatMap(([name, value]) => (name === 'Push-option' ? [value] : []));
}

function invalid(reason: string): OpRecordCheck {
  return { status: 'invalid', reason };
}

/** What the bytes of an op record say of its push beside its edits. Verifies nothing. */
export function requestOf(body: Uint8Array): { noEffects: string | null; pushOptions: string[] } {
  const trailers = trailersOf(Buffer.from(body).toString('utf8'));
  return { noEffects: trailer(trailers, 'No-effects') ?? null, pushOptions: pushOptionsIn(trailers) };
}
