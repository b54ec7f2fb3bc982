import {
  admits,
  CONFIG_REF,
  hasAdmin,
  hasSigningAdmin,
  isGoverning,
  MATCHING_STEPS_MAX,
  MEMBER_PREFIX,
  ownerOfKey,
  policySteps,
  rulesInForce,
  strictestLevel,
  type Decided,
  type KeyOwner,
  type Member,
  type Role,
  type RuleInForce,
} from '@sluice/effect-spec';
import type { RefEdit } from '@sluice/ref-store';
import { inTurns } from '../in-turns.ts';
import { MEMBER_STAYS, type Governance } from './governance.ts';
import { SCOPE_OF_ROLE } from './scope-of-role.ts';

/** What a push asks for, and what it shows for itself. */
export interface Attempt {
  edits: readonly RefEdit[];
  /** What its credentials make of the pusher in this repository. */
  roles: readonly Role[];
  /** The public key whose signature it carries; null: it is not signed. */
  key: string | null;
  /** Whether its credentials open every repository of the server with every right. */
  isServerAdmin: boolean;
  /** Whether the server of an adopted repository says who pushes, and not a token. */
  isUser: boolean;
}

/** Nothing in the way but what only objects can tell. */
export interface Admitted {
  /** The name of the member that signed; null: nobody did, or nobody asks. */
  signer: string | null;
  /** Refs that may not move to anything but a descendant, each with the reason for the case that it does. */
  forwardOnly: ReadonlyMap<string, string>;
}

/** One reason for all refs, or one for each ref that has a fault. */
export type Refused = { refused: string | ReadonlyMap<string, string> };

/** Each takes a git process of a few milliseconds. */
const FORWARD_ONLY_MAX = 1000;

/**
 * Judges a push by who pushes, who signed, and the policy. Pure: the same push and governance give the same judgement,
 * so it can be made before a byte of the pack is read, and again when the repository is locked. In turns with everybody
 * else's work: to find the rules for many refs may take hundreds of milliseconds.
 */
export async function judgePush(governance: Governance, attempt: Attempt): Promise<Admitted | Refused> {
  const { members, policy } = governance;
  const { edits, roles, key, isServerAdmin, isUser } = attempt;
  const broken = faultOf(governance);
  const isRepair = isServerAdmin && edits.every(({ name }) => isGoverning(name));
  // Nothing that governs the repository keeps an admin of the server from repairing what no member can.
  if (isRepair && (broken !== null || (members !== null && !hasSigningAdmin(members)))) {
    return { signer: null, forwardOnly: new Map() };
  }
  if (broken !== null) {
    return {
      refused: `nobody can push here: ${broken}. An admin of the server has to repair ${MEMBER_PREFIX} or ${CONFIG_REF}`,
    };
  }
  const names = edits.map(({ name }) => name);
  if (policySteps(policy, names) > MATCHING_STEPS_MAX) {
    return {
      refused: `expected a push that can be judged in about a second, got ${names.length} refs for a policy with long patterns; push fewer refs at once`,
    };
  }
  const rules = await inTurns(rulesInForce(policy, names));
  const ruled = edits.map((edit, index) => ({ edit, rule: rules[index]! }));
  const level = members === null ? 'off' : strictestLevel(ruled.map(({ rule }) => rule.attestation.value));
  const owner = members === null || level === 'off' || key === null ? null : signerOf(members, key);
  if (typeof owner === 'string') return { refused: owner };
  const isUnsigned = level === 'required' && owner === null;
  const faults = new Map<string, string>();
  const forwardOnly = new Map<string, string>();
  for (const { edit, rule } of ruled) {
    const fault =
      roleFault(rule, roles, isUser) ?? moveFault(edit, rule) ?? signatureFault(rule, { isUnsigned, owner });
    if (fault !== null) faults.set(edit.name, fault);
    else if (isMove(edit) && !rule.force.value) forwardOnly.set(edit.name, forceReason(rule));
  }
  if (faults.size > 0) return { refused: faults };
  if (forwardOnly.size > FORWARD_ONLY_MAX) {
    return {
      refused: `expected at most ${FORWARD_ONLY_MAX} refs that may only move forward in one push, got ${forwardOnly.size}; push them in several parts`,
    };
  }
  return { signer: owner?.name ?? null, forwardOnly };
}

/** Why nobody can rely on what governs a repository; null: everybody can. */
function faultOf({ members, problem }: Governance): string | null {
  if (problem !== null) return problem;
  return members === null || hasAdmin(members.values()) ? null : 'no member is an admin any more';
}

/** Whose key it is, or why it counts for nothing. */
function signerOf(members: ReadonlyMap<string, Member>, key: string): KeyOwner | string {
  const owner = ownerOfKey(members, key);
  if (owner === undefined)
    return 'the push is signed with a key of nobody who is a member here; an admin adds it with sluice member add';
  return owner.member.revoked
    ? `the push is signed with a key of ${owner.name}, who was revoked; sign with another`
    : owner;
}

const NAME_OF_ROLE: Readonly<Record<Role, string>> = {
  admin: 'an admin',
  writer: 'a writer',
  worker: 'a worker',
};

function roleFault(
  { roles: { value: allowed, pattern } }: RuleInForce,
  roles: readonly Role[],
  isUser: boolean,
): string | null {
  if (admits(allowed, roles)) return null;
  if (allowed.length === 0) return `nobody may push here: ${pattern} has no roles`;
  if (isUser) {
    const expected = allowed.map((role) => NAME_OF_ROLE[role]).join(' or ');
    return `expected ${expected}: ${pattern} is for ${allowed.join('s and ')}s; sluice hook install --admin names the admins`;
  }
  const scopes = allowed.map((role) => SCOPE_OF_ROLE[role]).join(' or ');
  return `expected a token with ${scopes}: ${pattern} is for ${allowed.join('s and ')}s`;
}

/** What is wrong with a move or deletion, as far as names tell. */
function moveFault(edit: RefEdit, rule: RuleInForce): string | null {
  if (edit.to === null) {
    if (rule.delete.value) return null;
    if (edit.name.startsWith(MEMBER_PREFIX)) return MEMBER_STAYS;
    return `may not be deleted: ${rule.delete.pattern} has delete: false`;
  }
  // As in git itself, where a tag that exists is only replaced by force.
  const isTagMove = isMove(edit) && edit.name.startsWith('refs/tags/');
  return isTagMove && !rule.force.value ? forceReason(rule) : null;
}

function signatureFault(
  { attestation, roles: { value: allowed } }: RuleInForce,
  { isUnsigned, owner }: { isUnsigned: boolean; owner: KeyOwner | null },
): string | null {
  if (isUnsigned) {
    if (attestation.value !== 'required') return null;
    return `expected a signed push: git push --signed; ${attestation.pattern} has attestation: required`;
  }
  if (owner === null || admits(allowed, [owner.member.role])) return null;
  const expected = allowed.map((role) => NAME_OF_ROLE[role]).join(' or ');
  return `expected the signature of ${expected}, got that of ${owner.name}, ${NAME_OF_ROLE[owner.member.role]}`;
}

function forceReason({ force: { pattern } }: { force: Decided<boolean> }): string {
  return `expected a fast-forward: ${pattern} has force: false`;
}

/** Whether an existing ref gets another value. */
export function isMove({ expect, to }: RefEdit): boolean {
  return expect !== 'absent' && to !== null && expect !== to;
}
