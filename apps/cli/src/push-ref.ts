import { CommandError } from './command-error.ts';
import { reason, type Git } from './git.ts';
import { printable, type Output } from './terminal.ts';
import { shownRemote } from './without-credentials.ts';

/** What a person tells git once, so that it signs. */
export const SIGNING_SETUP = 'git config gpg.format ssh; git config user.signingKey ~/.ssh/id_ed25519';
const SIGN_IF_ASKED = `${SIGNING_SETUP}; git config push.gpgSign if-asked`;

/** A push of one ref. */
export interface RefPush {
  readonly remote: string;
  readonly ref: string;
  /** Null: absent. */
  readonly from: string | null;
  /** Null: delete it. */
  readonly to: string | null;
  /** What a person calls it. */
  readonly what: string;
  /** The command that shows it. */
  readonly look: string;
  /** Further options of `git push`. */
  readonly options?: readonly string[];
}

/**
 * Moves a ref on the remote from one commit to another, and only from there: a change made by someone else in the
 * meantime is never overwritten. Shows what the server said.
 */
export async function pushRef(git: Git, push: RefPush, output: Output): Promise<void> {
  const { remote, ref, from, to, what, look, options = [] } = push;
  const { code, stdout, stderr } = await git.run([
    'push',
    '--porcelain',
    '--no-progress',
    '--no-verify',
    '--no-follow-tags',
    '--recurse-submodules=no',
    ...options,
    `--force-with-lease=${ref}:${from ?? ''}`,
    '--',
    remote,
    `${to ?? ''}:${ref}`,
  ]);
  output.write(serverWords(stderr));
  if (code === 0) return;
  const refusal = stdout
    .toString('utf8')
    .split('\n')
    .find((line) => line.startsWith('!'));
  if (refusal === undefined) {
    throw new CommandError(
      `the push failed: ${reason(stderr)}`,
      'Check your access with git push, then run it again.',
    );
  }
  const why = /\[[^\]]*\](?: \((?<reason>.*)\))?$/.exec(refusal)?.groups?.['reason'] ?? 'rejected';
  if (/stale info|^stale: |fetch first|non-fast-forward/.test(why)) {
    throw new CommandError(
      `${what} was changed on ${shownRemote(remote)} by someone else meanwhile`,
      `Look at it with ${look}, then run it again.`,
    );
  }
  throw new CommandError(
    `${shownRemote(remote)} refused the change: ${why}`,
    /expected a signed push/.test(why)
      ? `Nothing was changed. Have git sign what is asked for, then run it again: ${SIGN_IF_ASKED}`
      : 'Correct what the server names and run it again; nothing was changed.',
  );
}

/** What the server wrote to the person who pushes; git marks each line. */
function serverWords(stderr: string): string {
  return stderr
    .split(/\r?\n|\r/)
    .filter((line) => line.startsWith('remote: '))
    .map((line) => `${printable(line).trimEnd()}\n`)
    .join('');
}
