import { hashObject } from './hash-object.ts';
import { SIGNATURE_HEADER } from './op-record.ts';
import { formatOf, type Oid } from './oid.ts';
import { keyOfSshSignature } from './ssh-signature.ts';

/** What the bytes of an op record say. Nothing of it is proven before its signature is. */
export interface SignedRecord {
  /** The key that the signature names: `ssh-ed25519 AAAA…`. */
  publicKey: string;
  /** Previous record. */
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
  /** The commit without its signature header. */
  signed: Buffer;
  /** Armoured, as in its header. */
  signature: string;
}

/**
 * Reads the op record that the push id names, from the bytes of its commit, or says why they are none: they hash to the
 * id, and are a signed commit with the lines of {@link SignedRecord}.
 */
export function readOpRecord({ pushId, body }: { pushId: Oid; body: Uint8Array }): SignedRecord | string {
  const format = formatOf(pushId);
  if (hashObject(format, 'commit', body) !== pushId) return 'the bytes do not hash to the push id';
  const text = Buffer.from(body).toString('utf8');
  const end = text.indexOf('\n\n');
  if (end === -1) return 'the bytes are not a commit';
  const headers = parseHeaders(text.slice(0, end));
  const { key: lastHeader, value: signature } = headers.pop()!;
  if (lastHeader !== SIGNATURE_HEADER[format]) return 'the record is not signed';
  const keyBlob = keyOfSshSignature(signature);
  if (keyBlob === undefined) return 'the signature of the record cannot be read';
  const message = text.slice(end);
  const value = (name: string): string | undefined => headers.find(({ key }) => key === name)?.value;
  const trailers = trailersOf(message);
  const tree = value('tree');
  const [repoId, seq] = [trailer(trailers, 'Repo'), trailer(trailers, 'Seq')];
  const seconds = / (\d{1,18}) \+0000$/.exec(value('committer') ?? '')?.[1];
  const isWhole = tree !== undefined && repoId !== undefined && seconds !== undefined;
  if (!isWhole || seq === undefined || !/^[1-9][0-9]{0,17}$/.test(seq)) {
    return 'the commit is not an op record';
  }
  return {
    publicKey: `ssh-ed25519 ${keyBlob.toString('base64')}`,
    parent: value('parent') ?? null,
    tree,
    repoId,
    seq: BigInt(seq),
    signer: trailer(trailers, 'Pushed-by') ?? null,
    seconds: BigInt(seconds),
    noEffects: trailer(trailers, 'No-effects') ?? null,
    pushOptions: pushOptionsIn(trailers),
    signed: Buffer.from(headers.map(({ raw }) => raw).join('\n') + message),
    signature,
  };
}

/** What the bytes of an op record say of its push beside its edits. Verifies nothing. */
export function requestOf(body: Uint8Array): { noEffects: string | null; pushOptions: string[] } {
  const trailers = trailersOf(Buffer.from(body).toString('utf8'));
  return { noEffects: trailer(trailers, 'No-effects') ?? null, pushOptions: pushOptionsIn(trailers) };
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
