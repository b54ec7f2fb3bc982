import { assertStorable, SluiceError } from '@sluice/db';
import { hashObject, type ObjectKind } from './hash-object.ts';
import { zeroOid, type ObjectFormat, type Oid } from './oid.ts';
import type { AppliedEdit } from './ref-edit.ts';
import type { ServerKey } from './server-key.ts';

/** A git object ready to be stored. */
export interface GitObject {
  oid: Oid;
  kind: ObjectKind;
  bytes: Buffer;
}

export interface OpRecordInput {
  repoId: string;
  objectFormat: ObjectFormat;
  /** Position in the repository's log, from 1. */
  seq: bigint;
  /** Push id of the previous op record. */
  parent: Oid | null;
  edits: readonly AppliedEdit[];
  /** Who pushed, as far as it was proven. */
  signer: string | null;
  /** The push certificate as git received it. */
  certificate?: Uint8Array;
  /** Why the push causes no effects, whatever its definitions say. */
  noEffects?: string;
  /** What `git push -o` said, in its order. */
  pushOptions?: readonly string[];
  /** Seconds since 1970, by the database clock. */
  seconds: bigint;
  key: ServerKey;
  /** First paragraphs of the commit message; there is a default. */
  message?: string;
}

export interface OpRecord {
  /** OID of the commit. */
  pushId: Oid;
  /** Blob OID of the certificate; null: the push had none. */
  certOid: Oid | null;
  /** Armoured SSH signature over the commit without its signature header. */
  signature: string;
  /** Bytes of the commit, signature included. */
  body: Buffer;
  /** The commit and all it refers to that is new: tree, `edits` and, with a certificate, `certificate`. */
  objects: GitObject[];
}

/** The header a commit's signature is stored in; git gives each object format its own. */
export const SIGNATURE_HEADER = { sha1: 'gpgsig', sha256: 'gpgsig-sha256' } as const;

const AUTHOR = 'Sluice <sluice@localhost>';

/**
 * The signed record of one accepted push: a git commit whose parent is the previous record, so that the log is a hash
 * chain. Its tree holds `edits`, one line `<old> <new> <name>` per changed ref in byte order of the names, and the
 * push `certificate` if there was one. Its message ends with the lines `Repo`, `Seq`, `Pushed-by`, `No-effects` and
 * `Push-option`, one for each, so that a record cannot be passed off as another repository's. What a push has not is no
 * line: a new kind of line leaves all other records as they were. Pure: the same input gives the same push id.
 */
export function buildOpRecord(input: OpRecordInput): OpRecord {
  const { objectFormat: format } = input;
  const object = (kind: ObjectKind, bytes: Buffer): GitObject => ({
    oid: hashObject(format, kind, bytes),
    kind,
    bytes,
  });
  const edits = object('blob', Buffer.from(encodeEdits(format, input.edits)));
  const certificate =
    input.certificate === undefined ? undefined : object('blob', Buffer.from(input.certificate));
  const tree = object('tree', encodeTree(edits.oid, certificate?.oid ?? null));
  const header = [
    `tree ${tree.oid}`,
    ...(input.parent === null ? [] : [`parent ${input.parent}`]),
    `author ${AUTHOR} ${input.seconds} +0000`,
    `committer ${AUTHOR} ${input.seconds} +0000`,
  ].join('\n');
  const message = encodeMessage(input);
  const signature = input.key.sign(Buffer.from(`${header}\n\n${message}`));
  const signatureHeader = `${SIGNATURE_HEADER[format]} ${signature.replaceAll('\n', '\n ')}`;
  const commit = object('commit', Buffer.from(`${header}\n${signatureHeader}\n\n${message}`));
  return {
    pushId: commit.oid,
    certOid: certificate?.oid ?? null,
    signature,
    body: commit.bytes,
    objects: [edits, ...(certificate ? [certificate] : []), tree, commit],
  };
}

/** The tree of an op record; git wants the entries in order of their names. */
export function encodeTree(edits: Oid, certificate: Oid | null): Buffer {
  const entry = (name: string, oid: Oid): Buffer =>
    Buffer.concat([Buffer.from(`100644 ${name}\0`), Buffer.from(oid, 'hex')]);
  return Buffer.concat([
    ...(certificate === null ? [] : [entry('certificate', certificate)]),
    entry('edits', edits),
  ]);
}

/** One line per changed ref, in byte order of the names: `<old> <new> <name>`, zeros where there is no object. */
export function encodeEdits(format: ObjectFormat, edits: readonly AppliedEdit[]): string {
  const none = zeroOid(format);
  return edits
    .map((edit) => ({
      name: Buffer.from(edit.name),
      line: `${edit.oldOid ?? none} ${edit.newOid ?? none} ${edit.name}\n`,
    }))
    .sort((a, b) => Buffer.compare(a.name, b.name))
    .map((edit) => edit.line)
    .join('');
}

function encodeMessage(input: OpRecordInput): string {
  const { message, repoId, seq, signer, noEffects, pushOptions = [], edits } = input;
  const text = message ?? `Push ${seq}: ${edits.length} ref${edits.length === 1 ? '' : 's'}`;
  assertStorable('message', text);
  if (signer !== null) assertLine('signer', signer);
  if (noEffects !== undefined) assertLine('noEffects', noEffects);
  for (const option of pushOptions) assertLine('pushOptions', option);
  const trailers = [
    `Repo: ${repoId}`,
    `Seq: ${seq}`,
    ...(signer === null ? [] : [`Pushed-by: ${signer}`]),
    ...(noEffects === undefined ? [] : [`No-effects: ${noEffects}`]),
    ...pushOptions.map((option) => `Push-option: ${option}`),
  ];
  return `${text.trimEnd()}\n\n${trailers.join('\n')}\n`;
}

function assertLine(field: string, value: string): void {
  assertStorable(field, value);
  if (!/\p{Cc}/u.test(value)) return;
  throw new SluiceError(
    'invalid_argument',
    `${field}: expected one printable line, got a control character.`,
  );
}
