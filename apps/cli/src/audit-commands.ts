import { Option, type Command } from 'commander';
import { retireKey, showKeys } from './key-commands.ts';
import { showOp, type ShowOptions } from './op-show-command.ts';
import { verifyOps, type VerifyOptions } from './op-verify-command.ts';
import { rebuild, type RebuildOptions } from './rebuild-command.ts';
import type { Terminal } from './terminal.ts';

/** The commands that read what pushes left behind. */
export function addAuditCommands(program: Command, terminal: Terminal): void {
  const op = program.command('op').description('the signed records of accepted pushes');
  op.command('show')
    .description('what a push changed, who pushed, when, and whether its record is good')
    .argument('<push>', 'its id, as git push shows it, or the first 7 or more digits')
    .addOption(
      new Option(
        '--raw',
        "only the record's bytes: git hash-object -t commit --stdin gives the push id",
      ).conflicts(['edits', 'certificate']),
    )
    .addOption(new Option('--edits', 'only its edits, as the record has them').conflicts('certificate'))
    .option('--certificate', 'only what was signed by who pushed, with the signature')
    .action((push: string, options: ShowOptions) => showOp(terminal, push, options));
  op.command('verify [repo]')
    .description("recompute a repository's history and name the first record that does not fit")
    .addOption(new Option('--all', 'every repository'))
    .option('--key <file>', 'trust only the public keys in this file, not those that the database names')
    .action((repoId: string | undefined, options: VerifyOptions) => verifyOps(terminal, repoId, options));
  program
    .command('rebuild')
    .description('after the queue was lost: enqueue what pushes asked for and has no result')
    .option('--repo <repo>', 'only this repository')
    .option('--dry-run', 'say what would come back, and write nothing')
    .action((options: RebuildOptions) => rebuild(terminal, options));
  const key = program.command('key').description('the keys that pushers sign records with');
  key
    .command('list')
    .description('all keys, retired ones too')
    .action(() => showKeys(terminal));
  key
    .command('retire <fingerprint>')
    .description('end the use of a key; what it signed before stays good')
    .action((fingerprint: string) => retireKey(terminal, fingerprint));
}
