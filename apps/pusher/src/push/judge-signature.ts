import {
  attestationLevel,
  CONFIG_REF,
  MEMBER_PREFIX,
  META_PREFIX,
  type Member,
  type Role,
} from '@sluice/effect-spec';
import type { Governance } from './governance.ts';

/** What a push shows for itself. */
export interface Attempt {
  /** Full ref names. */
  refs: readonly string[];
  /** The public key whose signature it carries; null: it is not signed. */
  key: string | null;
  /** Whether its credentials open every repository of the server with every right. */
  isServerAdmin: boolean;
}

export type Judgement =
  /** The name of the member that signed; null: nobody did, or nobody asks. */
  | { signer: string | null }
  /** One reason for all refs, or one for each ref that has a fault. */
  | { refused: string | ReadonlyMap<string, string> };

/**
 * Judges a push by who signed it. Pure: the same push and governance give the same judgement, so it can be made before
 * a byte of the pack is read, and again when the repository is locked.
 */
export function judgeSignature(governance: Governance, { refs, key, isServerAdmin }: Attempt): Judgement {
  const broken = governance.problem ?? (hasAdmin(governance) ? null : 'no member is an admin any more');
  if (broken !== null) {
    const isRepair = refs.every((ref) => ref === CONFIG_REF || ref.startsWith(MEMBER_PREFIX));
    if (isServerAdmin && isRepair) return { signer: null };
    return {
      refused: `nobody can push here: ${broken}. An admin of the server has to repair ${MEMBER_PREFIX} or ${CONFIG_REF}`,
    };
  }
  const level = attestationLevel(governance.policy, refs);
  if (level === 'off' || (level === 'optional' && key === null)) return { signer: null };
  if (key === null) return { refused: 'expected a signed push: git push --signed' };
  const owner = ownerOf(governance, key);
  if (owner === undefined) return { refused: 'the push is signed with a key of nobody who is a member here' };
  const { name, member } = owner;
  if (member.revoked) return { refused: `the push is signed with a key of ${name}, who was revoked` };
  const faults = new Map<string, string>();
  for (const ref of refs) {
    const needed: Role = ref.startsWith(META_PREFIX) ? 'admin' : 'writer';
    if (member.role === 'admin' || member.role === needed) continue;
    faults.set(
      ref,
      `expected the signature of ${needed === 'admin' ? 'an admin' : 'a writer'}, got that of ${name}, a ${member.role}`,
    );
  }
  return faults.size > 0 ? { refused: faults } : { signer: name };
}

/** Whose key it is. A key that one of its owners lost is lost for all of them. */
function ownerOf({ members }: Governance, key: string): { name: string; member: Member } | undefined {
  const owners = [...members].filter(([, { keys }]) => keys.includes(key));
  const [name, member] = owners.find(([, { revoked }]) => revoked) ?? owners[0] ?? [];
  return name === undefined || member === undefined ? undefined : { name, member };
}

function hasAdmin({ members }: Governance): boolean {
  return [...members.values()].some(({ role, revoked }) => role === 'admin' && !revoked);
}
