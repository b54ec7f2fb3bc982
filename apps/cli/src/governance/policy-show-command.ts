import { CommandError } from '../command-error.ts';
import { createGit } from '../git.ts';
import type { Terminal } from '../terminal.ts';
import { describeRule, describeRules } from './describe-policy.ts';
import { listGoverningRefs, readPolicy } from './remote-governance.ts';

/** Said where there is nobody who could sign. */
export const NO_MEMBERS_YET = '\nattestation counts from the first member on; there is none yet\n';

/** `sluice policy show`: what is in force for a ref, or every rule, those that decide first in front. */
export async function showPolicy(terminal: Terminal, ref: string | undefined, remote: string): Promise<void> {
  if (ref !== undefined && !ref.startsWith('refs/')) {
    throw new CommandError(
      `expected a full ref name such as refs/heads/main, got ${JSON.stringify(ref.slice(0, 60))}`,
      'git ls-remote shows the names; a branch called main is refs/heads/main.',
    );
  }
  const git = createGit(terminal.cwd, terminal.env);
  const refs = await listGoverningRefs(git, remote);
  const { policy } = await readPolicy(git, remote, refs);
  terminal.stdout.write(ref === undefined ? describeRules(policy) : describeRule(policy, ref));
  if (refs.members.length === 0) terminal.stdout.write(NO_MEMBERS_YET);
}
