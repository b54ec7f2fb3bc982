import {
  CONFIG_REF,
  createPolicy,
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
import { fetchRemoteRefs, listRemoteRefs, readRemoteFile, type RemoteRef } from '../remote-refs.ts';
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
  await fetchRemoteRefs(git, remote, [config]);
  const text = (await readRemoteFile(git, config, POLICY_FILE)) ?? Buffer.alloc(0);
  const parsed = parsePolicy(text);
  if ('policy' in parsed) return { policy: parsed.policy, text };
  const [first] = parsed.problems;
  throw new CommandError(
    `nobody can push to ${shownRemote(remote)}, since its policy cannot be read: ${POLICY_FILE}:${first?.line}:${first?.column}: ${first?.message}`,
    `An admin of the server has to push a better one to ${CONFIG_REF}.`,
  );
}

/** What each member's ref holds, in the order of the refs. */
export async function readMembers(
  git: Git,
  remote: string,
  { members }: Pick<GoverningRefs, 'members'>,
): Promise<(RemoteMember | BrokenMember)[]> {
  await fetchRemoteRefs(git, remote, members);
  const read: (RemoteMember | BrokenMember)[] = [];
  for (const one of members) {
    const name = one.ref.slice(MEMBER_PREFIX.length);
    const text = (await readRemoteFile(git, one, MEMBER_FILE)) ?? Buffer.alloc(0);
    const parsed = parseMember(text);
    if ('member' in parsed) {
      read.push({ ...one, name, text, member: parsed.member });
      continue;
    }
    const [first] = parsed.problems;
    const problem = `${MEMBER_FILE}:${first?.line}:${first?.column}: ${first?.message}`;
    read.push({ ref: one.ref, name, problem });
  }
  return read;
}
