import type { Member } from './parse-member.ts';
import { isWholePublicKey } from './ssh-public-key.ts';

/** A member who has a key. */
export interface KeyOwner {
  readonly name: string;
  readonly member: Member;
}

/**
 * Whose key it is, of all members by name: of several owners the first, but a key that one of its owners lost is lost
 * for all of them, so that one comes before all others. Undefined: nobody's.
 */
export function ownerOfKey(members: ReadonlyMap<string, Member>, key: string): KeyOwner | undefined {
  return ownersOfKeys(members, new Set([key])).get(key)?.[0];
}

/** The owners of each of these keys, in the order that {@link ownerOfKey} has. */
export function ownersOfKeys(
  members: ReadonlyMap<string, Member>,
  keys: ReadonlySet<string>,
): Map<string, KeyOwner[]> {
  const owners = new Map<string, KeyOwner[]>();
  for (const isLost of [true, false])
    for (const [name, member] of members) {
      if (member.revoked !== isLost) continue;
      for (const key of member.keys) {
        if (!keys.has(key)) continue;
        const known = owners.get(key);
        if (known === undefined) owners.set(key, [{ name, member }]);
        else known.push({ name, member });
      }
    }
  return owners;
}

/** Whether there is somebody who is an admin now. */
export function hasAdmin(members: Iterable<Member>): boolean {
  return [...members].some(isAdmin);
}

/** Whether one of them has a key whose signatures count as an admin's. */
export function hasSigningAdmin(members: ReadonlyMap<string, Member>): boolean {
  const keys = [...members.values()].filter(isAdmin).flatMap((admin) => admin.keys);
  const owners = ownersOfKeys(members, new Set(keys));
  return keys.some((key) => isAdmin(owners.get(key)![0]!.member) && isWholePublicKey(key));
}

function isAdmin({ role, revoked }: Member): boolean {
  return role === 'admin' && !revoked;
}
