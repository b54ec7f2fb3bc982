import { memberKeyLines } from '@sluice/effect-spec';
import { createGit } from '../git.ts';
import { table, type Terminal } from '../terminal.ts';
import { shownRemote } from '../without-credentials.ts';
import { readPublicKey } from './public-key.ts';
import { listGoverningRefs, readMembers, type BrokenMember, type RemoteMember } from './remote-governance.ts';

/** `sluice member list`: every member of the remote with its keys, the revoked ones included. */
export async function listMembers(terminal: Terminal, remote: string): Promise<void> {
  const git = createGit(terminal.cwd, terminal.env);
  const members = await readMembers(git, remote, await listGoverningRefs(git, remote));
  if (members.length === 0) {
    terminal.stdout.write(
      `no members on ${shownRemote(remote)}, so nobody looks at signatures; add the first with sluice member add <name> --key <file.pub> --role admin\n`,
    );
    return;
  }
  terminal.stdout.write(table(['NAME', 'ROLE', 'STATE', 'KEY', 'COMMENT'], members.flatMap(rowsOf)));
}

/** One for each key. */
function rowsOf(one: RemoteMember | BrokenMember): string[][] {
  if ('problem' in one) return [[one.name, '-', `malformed: ${one.problem}`, '', '']];
  const state = one.member.revoked ? 'revoked' : 'active';
  return memberKeyLines(one.text).map((line) => {
    const { fingerprint = '', comment = '' } = readPublicKey(line) ?? {};
    return [one.name, one.member.role, state, fingerprint, comment];
  });
}
