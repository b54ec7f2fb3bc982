import type { Member } from './parse-member.ts';

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
  const owners = [...members].filter(([, { keys }]) => keys.includes(key));
  const owner = owners.find(([, { revoked }]) => revoked) ?? owners[0];
  return owner === undefined ? undefined : { name: owner[0], member: owner[1] };
}

/** Whether there is somebody who is an admin now. */
export function hasAdmin(members: Iterable<Member>): boolean {
  return [...members].some(({ role, revoked }) => role === 'admin' && !revoked);
}
