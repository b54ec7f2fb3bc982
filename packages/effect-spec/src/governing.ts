import { describeProblems } from './describe-problems.ts';
import { MEMBER_FILE, MEMBER_PREFIX, parseMember, type Member } from './parse-member.ts';
import { parsePolicy } from './parse-policy.ts';
import { CONFIG_REF, createPolicy, POLICY_FILE, type Policy } from './push-policy.ts';

/** What the commit of a member or of the policy says. */
export type Governing = { readonly member: Member } | { readonly policy: Policy };

/** Who may push what to a repository, and who may sign it. */
export interface Governed {
  /** By name. */
  readonly members: ReadonlyMap<string, Member>;
  readonly policy: Policy;
}

/** Why something cannot be understood. */
interface Meaningless {
  readonly problem: string;
}

/** Whether a ref holds something that governs pushes. */
export function isGoverning(ref: string): boolean {
  return ref === CONFIG_REF || ref.startsWith(MEMBER_PREFIX);
}

/** The file that the commit of such a ref holds. */
export function governingFile(ref: string): string {
  return ref === CONFIG_REF ? POLICY_FILE : MEMBER_FILE;
}

/** What such a file says, by its name, or the first thing that is wrong with it. */
export function parseGoverning(file: string, content: string | Uint8Array): Governing | Meaningless {
  const parsed = file === POLICY_FILE ? parsePolicy(content) : parseMember(content);
  return 'problems' in parsed ? { problem: describeProblems(file, parsed.problems) } : parsed;
}

/**
 * What these refs say together; without a policy, what holds everywhere. If one of them cannot be understood, nobody
 * can rely on the others.
 */
export function composeGoverned(
  refs: Iterable<readonly [ref: string, says: Governing | Meaningless]>,
): Governed | Meaningless {
  const members = new Map<string, Member>();
  let policy = createPolicy([]);
  for (const [ref, says] of refs) {
    if ('problem' in says) return { problem: `${ref}: ${says.problem}` };
    if ('policy' in says) ({ policy } = says);
    else members.set(ref.slice(MEMBER_PREFIX.length), says.member);
  }
  return { members, policy };
}
