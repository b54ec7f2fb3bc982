import { Document, parseDocument } from 'yaml';
import type { Role } from './parse-member.ts';
import { YAML_1_2 } from './read-yaml.ts';
import { normalizePublicKey } from './ssh-public-key.ts';

/** What is to be different about a member. */
export interface MemberChange {
  readonly role?: Role | undefined;
  /** There is no way back. */
  readonly revoked?: true;
  /** A line of a `.pub` file. */
  readonly addKey?: string | undefined;
  /** Type and base64. */
  readonly removeKey?: string;
}

/**
 * The text of a `member.yaml` after a change; null: there was none. What the change does not name stays as it is,
 * comments included. Takes only what `parseMember` reads.
 */
export function editMember(source: Uint8Array | null, change: MemberChange): string {
  const document = source === null ? new Document({ role: change.role, keys: [] }) : open(source);
  const { role, revoked, addKey, removeKey } = change;
  if (role !== undefined) document.set('role', role);
  if (revoked !== undefined) document.set('revoked', revoked);
  if (addKey !== undefined) document.addIn(['keys'], addKey);
  if (removeKey !== undefined) {
    const at = keysIn(document).findIndex((line) => normalizePublicKey(line) === removeKey);
    document.deleteIn(['keys', at]);
  }
  return document.toString({ lineWidth: 0 });
}

/** A member's keys as they stand in its file, with what was written behind each, in the order of `Member.keys`. */
export function memberKeyLines(source: Uint8Array): string[] {
  return keysIn(open(source));
}

function open(source: Uint8Array): Document {
  return parseDocument(Buffer.from(source).toString('utf8'), YAML_1_2);
}

function keysIn(document: Document): string[] {
  return (document.toJS() as { keys: string[] }).keys;
}
