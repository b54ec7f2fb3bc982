import {
  hasSigningAdmin,
  isWholePublicKey,
  MEMBER_PREFIX,
  ownersOfKeys,
  type KeyOwner,
  type Member,
} from '@sluice/effect-spec';
import type { Governance } from './governance.ts';

/**
 * Why members, given by name, may not become what a push says, by ref name: the keys that it adds are whole and
 * nobody else's, who is revoked stays so, and there is still an admin who can sign. What was there before is never
 * another reason, so that whatever improves it is taken. Pure, and judged while the repository is locked: of two admins who revoke each other at once,
 * one stays.
 */
export function judgeMembers(
  { members, problem }: Governance,
  pushed: ReadonlyMap<string, Member>,
): Map<string, string> {
  const faults = new Map<string, string>();
  // What cannot be read is repaired by an admin of the server, and cannot be compared with.
  if (pushed.size === 0 || (members !== null && problem !== null)) return faults;
  const before: ReadonlyMap<string, Member> = members ?? new Map<string, Member>();
  const after = new Map([...before, ...pushed]);
  const added = new Map([...pushed].map(([name, member]) => [name, addedKeys(member, before.get(name))]));
  const owners = ownersOfKeys(after, new Set([...added.values()].flat()));
  for (const [name, keys] of added) {
    if (before.get(name)?.revoked === true && !pushed.get(name)!.revoked) {
      faults.set(`${MEMBER_PREFIX}${name}`, STAYS_REVOKED);
      continue;
    }
    const all = pushed.get(name)!.keys;
    const fault = keys
      .map((key) => {
        const which = `key ${all.indexOf(key) + 1} of ${all.length} in member.yaml`;
        return keyFault(
          key,
          which,
          owners.get(key)!.find((owner) => owner.name !== name),
        );
      })
      .find((one) => one !== null);
    if (fault !== undefined) faults.set(`${MEMBER_PREFIX}${name}`, fault);
  }
  if (faults.size > 0 || hasSigningAdmin(after)) return faults;
  if (members !== null && !hasSigningAdmin(members)) return faults;
  const reason = members === null ? NO_ADMIN_YET : NO_ADMIN_LEFT;
  return new Map([...pushed.keys()].map((name) => [`${MEMBER_PREFIX}${name}`, reason]));
}

const STAYS_REVOKED =
  'expected revoked: true, as before: nobody comes back under the name of a member who was revoked. Add a member of another name, with a new key';

const NO_ADMIN_YET =
  'expected an admin among the first members: without one nobody can push here any more. Push that member before the others, or together with them';

const NO_ADMIN_LEFT =
  'expected an admin with a key that counts among the members after this push, got none: nobody could sign for members, policy or effects any more. Make somebody else an admin first, or in the same push';

/** Those that were not there before. Of a member who is revoked they count for nobody, whatever they are. */
function addedKeys({ keys, revoked }: Member, before: Member | undefined): readonly string[] {
  return revoked ? [] : keys.filter((key) => before?.keys.includes(key) !== true);
}

function keyFault(key: string, which: string, other: KeyOwner | undefined): string | null {
  if (!isWholePublicKey(key)) {
    return `expected a whole SSH public key, got one that is cut off or was changed: ${which}. Take its line from the .pub file once more`;
  }
  if (other === undefined) return null;
  const why = other.member.revoked
    ? 'who was revoked, so that it counts for nobody any more'
    : 'and nobody could tell who signed';
  return `expected a key of nobody else, got that of ${other.name}, ${why}: ${which}. Take another key`;
}
