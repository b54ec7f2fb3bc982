import {
  CONFIG_REF,
  createPolicy,
  MEMBER_PREFIX,
  parsePolicy,
  POLICY_FILE,
  ruleInForce,
  type Policy,
} from '@sluice/effect-spec';
import { CommandError } from './command-error.ts';
import { createGit, type Git } from './git.ts';
import { fetchRemoteRefs, listRemoteRefs, readRemoteFile, type RemoteRef } from './remote-refs.ts';
import { table, type Terminal } from './terminal.ts';
import { shownRemote } from './without-credentials.ts';

/** `sluice policy show`: what is in force for a ref, or every rule, those that decide first in front. */
export async function showPolicy(terminal: Terminal, ref: string | undefined, remote: string): Promise<void> {
  if (ref !== undefined && !ref.startsWith('refs/')) {
    throw new CommandError(
      `expected a full ref name such as refs/heads/main, got ${JSON.stringify(ref.slice(0, 60))}`,
      'git ls-remote shows the names; a branch called main is refs/heads/main.',
    );
  }
  const git = createGit(terminal.cwd, terminal.env);
  const refs = await listRemoteRefs(git, remote, { patterns: [CONFIG_REF, `${MEMBER_PREFIX}*`] });
  const policy = await readPolicy(git, remote, refs);
  terminal.stdout.write(ref === undefined ? describeRules(policy) : describeRule(policy, ref));
  if (!refs.some((one) => one.ref.startsWith(MEMBER_PREFIX)))
    terminal.stdout.write('\nattestation counts from the first member on; there is none yet\n');
}

async function readPolicy(git: Git, remote: string, refs: readonly RemoteRef[]): Promise<Policy> {
  const config = refs.find(({ ref }) => ref === CONFIG_REF);
  if (config === undefined) return createPolicy([]);
  await fetchRemoteRefs(git, remote, [config]);
  const parsed = parsePolicy((await readRemoteFile(git, config, POLICY_FILE)) ?? '');
  if ('policy' in parsed) return parsed.policy;
  const [first] = parsed.problems;
  throw new CommandError(
    `nobody can push to ${shownRemote(remote)}, since its policy cannot be read: ${POLICY_FILE}:${first?.line}:${first?.column}: ${first?.message}`,
    `An admin of the server has to push a better one to ${CONFIG_REF}.`,
  );
}

function describeRules({ rules }: Policy): string {
  const rows = rules.map(({ pattern, roles, force, delete: deletion, attestation }) => [
    pattern,
    roles === undefined ? '-' : shownRoles(roles),
    shownFlag(force),
    shownFlag(deletion),
    attestation ?? '-',
  ]);
  return table(['PATTERN', 'ROLES', 'FORCE', 'DELETE', 'ATTESTATION'], rows);
}

function describeRule(policy: Policy, ref: string): string {
  const { roles, force, delete: deletion, attestation } = ruleInForce(policy, ref);
  return table(
    ['WHAT', 'IN FORCE', 'BY THE RULE FOR'],
    [
      ['roles', shownRoles(roles.value), roles.pattern],
      ['force', shownFlag(force.value), force.pattern],
      ['delete', shownFlag(deletion.value), deletion.pattern],
      ['attestation', attestation.value, attestation.pattern],
    ],
  );
}

function shownRoles(roles: readonly string[]): string {
  return roles.length === 0 ? 'nobody' : roles.join(', ');
}

function shownFlag(value: boolean | undefined): string {
  return value === undefined ? '-' : String(value);
}
