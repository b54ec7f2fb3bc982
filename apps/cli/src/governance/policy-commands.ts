import {
  CONFIG_REF,
  editPolicy,
  parsePolicy,
  POLICY_FILE,
  type Policy,
  type RuleChange,
} from '@sluice/effect-spec';
import { buildFileCommit } from '../build-file-commit.ts';
import { CommandError } from '../command-error.ts';
import { createGit } from '../git.ts';
import { pushRef } from '../push-ref.ts';
import { onRemote } from '../remote-option.ts';
import type { Terminal } from '../terminal.ts';
import { shownRemote } from '../without-credentials.ts';
import { describeChange, describeRules } from './describe-policy.ts';
import { NO_MEMBERS_YET } from './policy-show-command.ts';
import { asksForSignatures, listGoverningRefs, readMembers, readPolicy } from './remote-governance.ts';
import { signingOptions } from './sign-push.ts';

/** `sluice policy set`: changes what the rule for a pattern says, and nothing else. */
export async function setRule(
  terminal: Terminal,
  pattern: string,
  change: RuleChange,
  remote: string,
): Promise<void> {
  if (Object.values(change).every((value) => value === undefined)) {
    throw new CommandError(
      'expected some of --roles, --force, --delete and --attestation, got none',
      `${onRemote('sluice policy show', remote)} lists the rules; ${onRemote(`sluice policy unset ${pattern}`, remote)} takes this one away.`,
    );
  }
  await changePolicy(terminal, pattern, change, remote);
}

/** `sluice policy unset`: takes the repository's rule for a pattern away. */
export async function unsetRule(terminal: Terminal, pattern: string, remote: string): Promise<void> {
  await changePolicy(terminal, pattern, 'unset', remote);
}

async function changePolicy(
  terminal: Terminal,
  pattern: string,
  change: RuleChange | 'unset',
  remote: string,
): Promise<void> {
  const git = createGit(terminal.cwd, terminal.env);
  const refs = await listGoverningRefs(git, remote, { mayBeNew: change !== 'unset' });
  const before = await readPolicy(git, remote, refs);
  const text = change === 'unset' && before.text === null ? null : editPolicy(before.text, pattern, change);
  if (text === null) {
    throw new CommandError(
      `the policy of ${shownRemote(remote)} has no rule for ${pattern}`,
      `${onRemote('sluice policy show', remote)} lists the rules; those that hold everywhere are changed with ${onRemote('sluice policy set', remote)}.`,
    );
  }
  const policy = parseOrRefuse(text);
  if (change !== 'unset' && isSame(before.policy, policy)) {
    terminal.stdout.write(
      `the rule for ${pattern} on ${shownRemote(remote)} says so already; nothing was pushed\n`,
    );
    return;
  }
  const options = await signingOptions(
    git,
    { policy: before.policy, asksForSignatures: asksForSignatures(await readMembers(git, remote, refs)) },
    CONFIG_REF,
  );
  const to = await buildFileCommit(git, terminal.env, {
    file: POLICY_FILE,
    text,
    message: `${change === 'unset' ? 'Unset' : 'Set'} the rule for ${pattern}`,
    parent: refs.config?.oid,
  });
  const names = { ref: CONFIG_REF, what: 'the policy', look: onRemote('sluice policy show', remote) };
  await pushRef(git, { ...names, remote, from: refs.config?.oid ?? null, to, options }, terminal.stdout);
  terminal.stdout.write(
    `changed the policy of ${shownRemote(remote)} (${to.slice(0, 12)})\n\n${describeChange(pattern, before.policy, policy)}\n${describeRules(policy)}`,
  );
  if (refs.members.length === 0) terminal.stdout.write(NO_MEMBERS_YET);
}

function parseOrRefuse(text: string): Policy {
  const parsed = parsePolicy(text);
  if ('policy' in parsed) return parsed.policy;
  const lines = parsed.problems.map(({ message }) => message);
  throw new CommandError(
    `${POLICY_FILE} would be refused, so nothing was pushed\n${lines.join('\n')}`,
    'Correct it and run it again.',
  );
}

function isSame(a: Policy, b: Policy): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
