import { ATTESTATION_LEVELS, ROLES, type AttestationLevel, type Role } from '@sluice/effect-spec';
import { InvalidArgumentError, Option, type Command } from 'commander';
import { remoteOption } from '../remote-option.ts';
import type { Terminal } from '../terminal.ts';
import { addMember, revokeMember } from './member-commands.ts';
import { listMembers } from './member-list-command.ts';
import { setRule, unsetRule } from './policy-commands.ts';
import { showPolicy } from './policy-show-command.ts';

/** `sluice member` and what is below it. */
export function addMemberCommands(program: Command, terminal: Terminal): void {
  const member = program
    .command('member')
    .description('whose signatures count in a repository; run these in a clone of it');
  member
    .command('add <name>')
    .description('make somebody a member, or give a member another key or role')
    .option('--key <file>', 'the .pub file of the key')
    .addOption(
      new Option('--role <role>', 'what the member signs for; a new one is a writer without it').choices(
        ROLES,
      ),
    )
    .addOption(remoteOption())
    .action((name: string, options: { key?: string; role?: Role; remote: string }) =>
      addMember(terminal, name, options),
    );
  member
    .command('revoke <name>')
    .description('let no signature of a member count any more; the name stays taken')
    .option('--key <key>', 'only this key, by its .pub file or its fingerprint')
    .addOption(remoteOption())
    .action((name: string, options: { key?: string; remote: string }) =>
      revokeMember(terminal, name, options),
    );
  member
    .command('list')
    .description('the members with their keys')
    .addOption(remoteOption())
    .action(({ remote }: { remote: string }) => listMembers(terminal, remote));
}

/** `sluice policy` and what is below it. */
export function addPolicyCommands(program: Command, terminal: Terminal): void {
  const policy = program
    .command('policy')
    .description('who may push what to a repository; run these in a clone of it');
  policy
    .command('show [ref]')
    .description('what is in force for a ref, or all rules, those that decide first in front')
    .addOption(remoteOption())
    .action((ref: string | undefined, { remote }: { remote: string }) => showPolicy(terminal, ref, remote));
  type Options = {
    roles?: Role[];
    force?: boolean;
    delete?: boolean;
    attestation?: AttestationLevel;
    remote: string;
  };
  policy
    .command('set <pattern>')
    .description("change what a repository's rule for a ref pattern says; it keeps what is not named")
    .option('--roles <roles>', `who may push: some of ${ROLES.join(',')}, or nobody`, roles)
    .option('--force <yes|no>', 'whether a ref may move to what is no descendant', flag)
    .option('--delete <yes|no>', 'whether a ref may be deleted', flag)
    .addOption(new Option('--attestation <level>', 'whether pushes are signed').choices(ATTESTATION_LEVELS))
    .addOption(remoteOption())
    .action((pattern: string, { remote, ...change }: Options) => setRule(terminal, pattern, change, remote));
  policy
    .command('unset <pattern>')
    .description("take a repository's rule for a ref pattern away")
    .addOption(remoteOption())
    .action((pattern: string, { remote }: { remote: string }) => unsetRule(terminal, pattern, remote));
}

function roles(text: string): Role[] {
  if (text === 'nobody') return [];
  return text.split(',').map((word) => {
    const role = ROLES.find((known) => known === word);
    if (role !== undefined) return role;
    throw new InvalidArgumentError(`Expected some of ${ROLES.join(',')}, or nobody.`);
  });
}

function flag(text: string): boolean {
  if (text === 'yes' || text === 'no') return text === 'yes';
  throw new InvalidArgumentError('Expected yes or no.');
}
