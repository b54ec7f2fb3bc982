import {
  editMember,
  isEffectName,
  MEMBER_FILE,
  MEMBER_PREFIX,
  parseMember,
  type Member,
  type MemberChange,
  type Role,
} from '@sluice/effect-spec';
import { buildFileCommit } from '../build-file-commit.ts';
import { CommandError } from '../command-error.ts';
import { createGit, type Git } from '../git.ts';
import { pushRef, SIGNING_SETUP } from '../push-ref.ts';
import { onRemote } from '../remote-option.ts';
import type { Terminal } from '../terminal.ts';
import { shownRemote } from '../without-credentials.ts';
import { assertAdminRemains, assertKeyIsFree } from './member-rules.ts';
import { publicKeyLine, readPublicKey, readPublicKeyFile } from './public-key.ts';
import {
  asksForSignatures,
  listGoverningRefs,
  readMembers,
  readPolicy,
  type RemoteMember,
  type RemotePolicy,
} from './remote-governance.ts';
import { signingOptions } from './sign-push.ts';

/** A member to change, among all others of the repository. */
interface Scene extends Pick<RemotePolicy, 'policy'> {
  git: Git;
  remote: string;
  name: string;
  members: readonly RemoteMember[];
  current: RemoteMember | undefined;
}

/** `sluice member add`: makes somebody a member, or gives a member another key or role. */
export async function addMember(
  terminal: Terminal,
  name: string,
  { key: file, role, remote }: { key?: string; role?: Role; remote: string },
): Promise<void> {
  assertMemberName(name);
  const key = file === undefined ? undefined : await readPublicKeyFile(terminal.cwd, file);
  const scene = await readScene(terminal, name, remote, { mayBeNew: true });
  const { members, current } = scene;
  const isNew = current === undefined;
  if (current?.member.revoked === true) {
    throw new CommandError(
      `${name} was revoked, and nobody comes back under the same name`,
      'Choose another name, and a new key.',
    );
  }
  if (isNew && key === undefined) {
    throw new CommandError(
      `expected --key with the public key of ${name}, who is no member of ${shownRemote(remote)} yet, got none`,
      'Run it with --key <file.pub>, such as --key ~/.ssh/id_ed25519.pub.',
    );
  }
  if (key !== undefined) assertKeyIsFree(members, name, key);
  const hasKey = key === undefined || current?.member.keys.includes(key.key) === true;
  const now = role ?? current?.member.role ?? 'writer';
  if (hasKey && now === current?.member.role) {
    terminal.stdout.write(
      `${name} on ${shownRemote(remote)} is already ${describe(current.member)}; nothing was pushed\n`,
    );
    return;
  }
  const change = { role: now, addKey: hasKey || key === undefined ? undefined : publicKeyLine(key) };
  const message = `${isNew ? 'Add' : 'Change'} member ${name}`;
  const { member, commit } = await pushChange(terminal, scene, change, message);
  terminal.stdout.write(
    `${isNew ? 'added' : 'changed'} ${name} on ${shownRemote(remote)}: ${describe(member)} (${commit})\n`,
  );
  if (members.length === 0) {
    terminal.stdout.write(
      `From now on an admin signs what is pushed below refs/meta/. Tell git how, once:\n  ${SIGNING_SETUP}\n`,
    );
  }
}

/** `sluice member revoke`: no signature of the member, or of one of its keys, counts any more. */
export async function revokeMember(
  terminal: Terminal,
  name: string,
  { key, remote }: { key?: string; remote: string },
): Promise<void> {
  assertMemberName(name);
  const wanted =
    key === undefined || key.startsWith('SHA256:')
      ? key
      : (await readPublicKeyFile(terminal.cwd, key)).fingerprint;
  const scene = await readScene(terminal, name, remote);
  const { current } = scene;
  if (current === undefined) {
    throw new CommandError(
      `the remote ${shownRemote(remote)} has no member called ${name}`,
      `${onRemote('sluice member list', remote)} shows the ones it has.`,
    );
  }
  if (current.member.revoked) {
    terminal.stdout.write(`${name} on ${shownRemote(remote)} is already revoked; nothing was pushed\n`);
    return;
  }
  const change: MemberChange =
    wanted === undefined ? { revoked: true } : { removeKey: keyToRemove(current, wanted, remote) };
  const message = wanted === undefined ? `Revoke member ${name}` : `Take a key from member ${name}`;
  const { member, commit } = await pushChange(terminal, scene, change, message);
  terminal.stdout.write(
    wanted === undefined
      ? `revoked ${name} on ${shownRemote(remote)} (${commit})\n`
      : `took ${wanted} from ${name} on ${shownRemote(remote)}: ${describe(member)} (${commit})\n`,
  );
}

async function readScene(
  terminal: Terminal,
  name: string,
  remote: string,
  options: { mayBeNew?: boolean } = {},
): Promise<Scene> {
  const git = createGit(terminal.cwd, terminal.env);
  const refs = await listGoverningRefs(git, remote, options);
  const { policy } = await readPolicy(git, remote, refs);
  const members = (await readMembers(git, remote, refs)).map((one) => {
    if (!('problem' in one)) return one;
    throw new CommandError(
      `nobody can push to ${shownRemote(remote)}, since the member ${one.name} cannot be read: ${one.problem}`,
      `An admin of the server has to push a better one to ${one.ref}.`,
    );
  });
  return { git, remote, name, policy, members, current: members.find((one) => one.name === name) };
}

/** Checks what would come of it as the server does, and some more, then pushes it. */
async function pushChange(
  terminal: Terminal,
  { git, remote, name, policy, members, current }: Scene,
  change: MemberChange,
  message: string,
): Promise<{ member: Member; commit: string }> {
  const text = editMember(current?.text ?? null, change);
  const parsed = parseMember(text);
  if ('problems' in parsed) {
    throw new CommandError(
      `${MEMBER_FILE} would be refused, so nothing was pushed: ${parsed.problems[0]?.message}`,
      'Correct it and run it again.',
    );
  }
  assertAdminRemains(members, { name, member: parsed.member }, remote);
  const ref = `${MEMBER_PREFIX}${name}`;
  const options = await signingOptions(git, { policy, asksForSignatures: asksForSignatures(members) }, ref);
  const commit = await buildFileCommit(git, terminal.env, {
    file: MEMBER_FILE,
    text,
    message,
    parent: current?.oid,
  });
  const look = onRemote('sluice member list', remote);
  const push = { remote, ref, what: name, look, from: current?.oid ?? null, to: commit, options };
  await pushRef(git, push, terminal.stdout);
  return { member: parsed.member, commit: commit.slice(0, 12) };
}

/** The key with that fingerprint, if the member can do without it. */
function keyToRemove({ name, member }: RemoteMember, fingerprint: string, remote: string): string {
  const key = member.keys.find((one) => readPublicKey(one)?.fingerprint === fingerprint);
  if (key === undefined) {
    throw new CommandError(
      `expected a key of ${name}, got ${JSON.stringify(fingerprint.slice(0, 60))}, which is none`,
      `${onRemote('sluice member list', remote)} shows the keys with their fingerprints.`,
    );
  }
  if (member.keys.length > 1) return key;
  throw new CommandError(
    `${name} has no other key than ${fingerprint}`,
    `Add the new one first with ${onRemote(`sluice member add ${name} --key <file.pub>`, remote)}, or revoke ${name} without --key.`,
  );
}

/** The server takes the same names for members as for effects. */
function assertMemberName(name: string): void {
  if (isEffectName(name)) return;
  throw new CommandError(
    `expected a member's name of letters, digits, dots, dashes and underscores, got ${JSON.stringify(name.slice(0, 60))}`,
    'Choose a name such as alice or build-bot.',
  );
}

function describe({ role, keys }: Member): string {
  const article = role === 'admin' ? 'an' : 'a';
  return `${article} ${role} with ${keys.length} ${keys.length === 1 ? 'key' : 'keys'}`;
}
