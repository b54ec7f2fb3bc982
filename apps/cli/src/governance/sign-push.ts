import { ruleInForce, type Policy } from '@sluice/effect-spec';
import { CommandError } from '../command-error.ts';
import type { Git } from '../git.ts';
import { SIGNING_SETUP } from '../push-ref.ts';

/**
 * The options that make git sign a push of a ref where the repository asks for it. Before there is somebody whose
 * signature counts, a signed push would be refused; where signatures are welcome, git does as it is configured.
 */
export async function signingOptions(
  git: Git,
  { policy, asksForSignatures }: { policy: Policy; asksForSignatures: boolean },
  ref: string,
): Promise<string[]> {
  if (!asksForSignatures) return ['--no-signed'];
  const { attestation } = ruleInForce(policy, ref);
  if (attestation.value !== 'required') return [];
  const format = await configured(git, 'gpg.format');
  const key =
    (await configured(git, 'user.signingKey')) ?? (await configured(git, 'gpg.ssh.defaultKeyCommand'));
  if (format === 'ssh' && key !== undefined) return ['--signed'];
  const got = format === 'ssh' ? 'no user.signingKey' : `gpg.format ${format ?? 'unset'}`;
  throw new CommandError(
    `expected git to sign with an SSH key, since ${attestation.pattern} has attestation: required, got ${got}; nothing was pushed`,
    `With the key of an admin: ${SIGNING_SETUP}`,
  );
}

async function configured(git: Git, name: string): Promise<string | undefined> {
  const { code, stdout } = await git.run(['config', name]);
  const value = stdout.toString('utf8').trim();
  return code === 0 && value !== '' ? value : undefined;
}
