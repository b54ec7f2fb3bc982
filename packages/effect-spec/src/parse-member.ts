import { isSeq, type Node } from 'yaml';
import { readFlag, readList, readMapping, readText, type Field } from './read-fields.ts';
import { quote, readYaml, type Findings, type Problem } from './read-yaml.ts';
import { normalizePublicKey } from './ssh-public-key.ts';

/** Members live here, one ref each. */
export const MEMBER_PREFIX = 'refs/meta/members/';

/** What a member's commit holds. */
export const MEMBER_FILE = 'member.yaml';

export const ROLES = ['admin', 'writer', 'worker'] as const;

/** What a member's signature is good for. */
export type Role = (typeof ROLES)[number];

/** Whose signatures count in a repository, and for what. */
export interface Member {
  readonly role: Role;
  /** A state and not a deletion: what was signed before stays explained. */
  readonly revoked: boolean;
  /** SSH public keys, type and base64. */
  readonly keys: readonly string[];
}

export type ParsedMember = { readonly member: Member } | { readonly problems: readonly Problem[] };

const KEYS_MAX = 50;
const KEY_BYTES_MAX = 4096;

/**
 * Reads the text of a `member.yaml`. Never throws: whatever is wrong comes back as problems with line and column.
 *
 * ```yaml
 * role: writer
 * keys:
 *   - ssh-ed25519 AAAA… alice@laptop
 * ```
 */
export function parseMember(source: string | Uint8Array): ParsedMember {
  const { root, findings } = readYaml(source);
  const member = findings.problems.length > 0 ? undefined : readMember(root, findings);
  const { problems } = findings;
  return member === undefined || problems.length > 0 ? { problems } : { member };
}

function readMember(root: Node | null, findings: Findings): Member | undefined {
  const what = 'a mapping with "role" and "keys"';
  if (root === null) {
    findings.add(0, `expected ${what}, got nothing`);
    return undefined;
  }
  const fields = readMapping({ value: root, place: root }, what, ['role', 'keys', 'revoked'], findings);
  if (fields === undefined) return undefined;
  const [role, keys, revoked] = [fields.get('role'), fields.get('keys'), fields.get('revoked')];
  if (role === undefined) findings.add(root, `expected "role" with ${ROLES.join(', ')}, got no such key`);
  if (keys === undefined) findings.add(root, 'expected "keys" with SSH public keys, got no such key');
  return {
    role: (role && readRole(role, findings)) ?? 'worker',
    keys: (keys && readKeys(keys, findings)) ?? [],
    revoked: (revoked && readFlag(revoked, findings)) ?? false,
  };
}

function readRole(field: Field, findings: Findings): Role | undefined {
  const what = ROLES.join(', ');
  const text = readText(field.value, field.place, what, { bytesMax: 40 }, findings);
  const role = ROLES.find((known) => known === text);
  if (role === undefined && text !== undefined)
    findings.add(field.place, `expected ${what}, got ${quote(text)}`);
  return role;
}

function readKeys(field: Field, findings: Findings): string[] {
  const items = readList(field, 'a list of SSH public keys', findings) ?? [];
  if (isSeq(field.value) && (items.length === 0 || items.length > KEYS_MAX)) {
    findings.add(field.place, `expected 1 to ${KEYS_MAX} keys, got ${items.length}`);
    return [];
  }
  return items.flatMap((item) => {
    const line = readText(item, item, 'an SSH public key', { bytesMax: KEY_BYTES_MAX }, findings);
    if (line === undefined) return [];
    const key = normalizePublicKey(line);
    if (key !== undefined) return [key];
    findings.add(item, `expected a line of a .pub file such as ssh-ed25519 AAAA…, got ${quote(line)}`);
    return [];
  });
}
