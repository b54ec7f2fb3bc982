import {
  CONFIG_REF,
  createPolicy,
  describeProblems,
  hasSigningAdmin,
  MEMBER_FILE,
  MEMBER_PREFIX,
  parseMember,
  parsePolicy,
  POLICY_FILE,
  type Member,
  type Policy,
} from '@sluice/effect-spec';
import { CommandError } from '../command-error.ts';
import type { Git } from '../git.ts';
import { fetchRemoteFiles, listRemoteRefs, type RemoteRef } from '../remote-refs.ts';
import { shownRemote } from '../without-credentials.ts';

/** The refs that say who may push what to a repository. */
export interface GoverningRefs {
  readonly config: RemoteRef | undefined;
  readonly members: readonly RemoteRef[];
}

/** The policy of a repository, and the file it stands in, if it has one of its own. */
export interface RemotePolicy {
  readonly policy: Policy;
  readonly text: Buffer | null;
}

/** A member's ref with what it holds. */
export interface RemoteMember extends RemoteRef {
  readonly name: string;
  readonly text: Buffer;
  readonly member: Member;
}

/** A member's ref that nobody can make sense of. */
export interface BrokenMember extends Pick<RemoteMember, 'ref' | 'name'> {
  readonly problem: string;
}

/** Those refs as they are now; with `mayBeNew`, a repository that the server does not know yet has none. */
export async function listGoverningRefs(
  git: Git,
  remote: string,
  options: { mayBeNew?: boolean } = {},
): Promise<GoverningRefs> {
  const patterns = [CONFIG_REF, `${MEMBER_PREFIX}*`];
  const refs = await listRemoteRefs(git, remote, { ...options, patterns });
  // A pattern of ls-remote matches the end of a ref as well.
  return {
    config: refs.find(({ ref }) => ref === CONFIG_REF),
    members: refs.filter(({ ref }) => ref.startsWith(MEMBER_PREFIX)),
  };
}

/** What the policy of a repository says; without one of its own, what holds everywhere. */
export async function readPolicy(
  git: Git,
  remote: string,
  { config }: Pick<GoverningRefs, 'config'>,
): Promise<RemotePolicy> {
  if (config === undefined) return { policy: createPolicy([]), text: null };
  const [text = Buffer.alloc(0)] = await fetchRemoteFiles(git, remote, [config], POLICY_FILE);
  const parsed = parsePolicy(text);
  if ('policy' in parsed) return { policy: parsed.policy, text };
  throw new CommandError(
    `nobody can push to ${shownRemote(remote)}, since its policy cannot be read: ${describeProblems(POLICY_FILE, parsed.problems)}`,
    `An admin of the server has to push a better one to ${CONFIG_REF}.`,
  );
}

/** What each member's ref holds, in the order of the refs. */
export async function readMembers(
  git: Git,
  remote: string,
  { members }: Pick<GoverningRefs, 'members'>,
): Promise<(RemoteMember | BrokenMember)[]> {
  const texts = await fetchRemoteFiles(git, remote, members, MEMBER_FILE);
  return members.map(({ ref, oid }, index) => {
    const name = ref.slice(MEMBER_PREFIX.length);
    const text = texts[index] ?? Buffer.alloc(0);
    const parsed = parseMember(text);
    if ('member' in parsed) return { ref, oid, name, text, member: parsed.member };
    return { ref, name, problem: describeProblems(MEMBER_FILE, parsed.problems) };
  });
}

/**
 * Whether the server asks for signatures where the policy has them required. Where no admin can sign, or a member cannot
 * be read, it lets an admin of the server repair that, who has no key that counts.
 */
export function asksForSignatures(members: readonly (RemoteMember | BrokenMember)[]): boolean {
  const known = members.flatMap((one) => ('problem' in one ? [] : [[one.name, one.member] as const]));
  return known.length === members.length && hasSigningAdmin(new Map(known));
}
