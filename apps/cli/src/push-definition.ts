import { DEFINITION_PREFIX } from '@sluice/effect-spec';
import { CommandError } from './command-error.ts';
import { reason, type Git } from './git.ts';
import { printable, type Output } from './terminal.ts';
import { shownRemote } from './without-credentials.ts';

/**
 * Moves a definition's ref on the remote from `from` to `to` (null: absent, or delete it), and only from there: a change
 * made by someone else in the meantime is never overwritten. Shows what the server said.
 */
export async function pushDefinition(
  git: Git,
  edit: { remote: string; name: string; from: string | null; to: string | null },
  output: Output,
): Promise<void> {
  const ref = `${DEFINITION_PREFIX}${edit.name}`;
  const { code, stdout, stderr } = await git.run([
    'push',
    '--porcelain',
    '--no-progress',
    '--no-verify',
    '--no-follow-tags',
    '--recurse-submodules=no',
    `--force-with-lease=${ref}:${edit.from ?? ''}`,
    '--',
    edit.remote,
    `${edit.to ?? ''}:${ref}`,
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
  if (/stale info|fetch first|non-fast-forward/.test(why)) {
    throw new CommandError(
      `${edit.name} was changed on ${shownRemote(edit.remote)} by someone else meanwhile`,
      `Look at it with sluice effect show ${edit.name}, then run it again.`,
    );
  }
  throw new CommandError(
    `${shownRemote(edit.remote)} refused the change: ${why}`,
    'Correct what the server names and run it again; nothing was changed.',
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
