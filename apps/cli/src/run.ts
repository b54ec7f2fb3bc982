import { isScope, REPOS_MAX, SCOPES, type Scope } from '@sluice/access';
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import { addAuditCommands } from './audit-commands.ts';
import { explain } from './command-error.ts';
import { addEffect, listEffects, removeEffect, showEffect } from './effect-commands.ts';
import { explainUsage } from './explain-usage.ts';
import { addMemberCommands, addPolicyCommands } from './governance/governance-commands.ts';
import { addHookCommands } from './hook/hook-commands.ts';
import { showLog } from './log-command.ts';
import { setLimit, showLimit } from './limit-commands.ts';
import { migrateDatabase } from './migrate-command.ts';
import { showQueue, type QueueOptions } from './queue-command.ts';
import { checkRepos, type CheckOptions } from './repo-check-command.ts';
import { remoteOption } from './remote-option.ts';
import { setRepo, showRepo, type RepoChanges } from './repo-commands.ts';
import { dropLostRefs, type DropLostOptions } from './repo-drop-lost-command.ts';
import { listRepos } from './repo-list-command.ts';
import { cancelEffect, rerun } from './steer-commands.ts';
import type { Terminal } from './terminal.ts';
import { newToken, showTokens, withdrawToken } from './token-commands.ts';
import { readVersion } from './version.ts';

const FAILED = 1;
const USED_WRONGLY = 2;

/** Runs one command line and returns its exit code: 0 done, 1 failed, 2 used wrongly. */
export async function run(args: readonly string[], terminal: Terminal): Promise<number> {
  try {
    await createProgram(terminal).parseAsync(args, { from: 'user' });
    return 0;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : USED_WRONGLY;
    if (terminal.signal.aborted && error === terminal.signal.reason) return 0;
    terminal.stderr.write(explain(error));
    return FAILED;
  }
}

function createProgram(terminal: Terminal): Command {
  const program = new Command('sluice')
    .description('Effects of git pushes: define them, see why they wait, read what they wrote.')
    .version(`sluice ${readVersion()}`, '-V, --version', 'show which version this is')
    .addHelpText(
      'after',
      '\nAfter a push, sluice queue shows what became of its effects, and sluice log <effect> what one of them wrote.' +
        '\neffect, member and policy need git and a remote; the others need DATABASE_URL, or a running npm start.',
    )
    .exitOverride()
    .configureOutput({
      writeOut: (text) => terminal.stdout.write(text),
      writeErr: (text) => terminal.stderr.write(text),
    });
  program.commandsGroup('What a repository runs, and who may push what:');
  addEffectCommands(program, terminal);
  addMemberCommands(program, terminal);
  addPolicyCommands(program, terminal);
  program.commandsGroup('Effects:');
  addQueueCommands(program, terminal);
  program.commandsGroup('Running it for others:');
  addRepoCommands(program, terminal);
  addLimitCommands(program, terminal);
  addTokenCommands(program, terminal);
  addHookCommands(program, terminal);
  program
    .command('migrate')
    .description("bring the database to this version's schema")
    .action(() => migrateDatabase(terminal));
  program.commandsGroup('What happened, checked and brought back:');
  addAuditCommands(program, terminal);
  sayWhatHelps(program, 'sluice');
  return program;
}

/** Whoever uses a command wrongly is sent to the help of that command, not to the list of all. */
function sayWhatHelps(command: Command, path: string): void {
  command.configureOutput({
    ...command.configureOutput(),
    outputError: (text, write) => write(explainUsage(text, path)),
  });
  for (const sub of command.commands) sayWhatHelps(sub, `${path} ${sub.name()}`);
}

function addEffectCommands(program: Command, terminal: Terminal): void {
  const effect = program
    .command('effect')
    .description('the definitions of a repository; run these in a clone of it');
  type Options = { remote: string };
  effect
    .command('add <name> <file>')
    .description('check a definition and push it, in place of one of the same name')
    .addOption(remoteOption())
    .action((name: string, file: string, options: Options) =>
      addEffect(terminal, name, file, options.remote),
    );
  effect
    .command('list')
    .description('the definitions with what triggers them')
    .addOption(remoteOption())
    .action((options: Options) => listEffects(terminal, options.remote));
  effect
    .command('show <name>')
    .description('the text of a definition')
    .addOption(remoteOption())
    .action((name: string, options: Options) => showEffect(terminal, name, options.remote));
  effect
    .command('remove <name>')
    .description('delete a definition; effects already queued still run')
    .addOption(remoteOption())
    .action((name: string, options: Options) => removeEffect(terminal, name, options.remote));
}

const EFFECT_NUMBER = 'its number, as git push and sluice queue show it';

function addQueueCommands(program: Command, terminal: Terminal): void {
  program
    .command('queue')
    .description('what runs, what waits and for what, and the newest effects that have finished')
    .option('--repo <repo>', 'only this repository')
    .option('--limit <n>', 'rows per section', whole(1, 1000), 20)
    .option('--watch', 'keep showing it until interrupted')
    .action((options: QueueOptions) => showQueue(terminal, options));
  program
    .command('log')
    .description("an effect's output, all attempts")
    .argument('<effect>', EFFECT_NUMBER)
    .option('--follow', 'keep showing it until the effect has finished')
    .action((effect: string, options: { follow?: true }) => showLog(terminal, effect, options));
  program
    .command('cancel')
    .description('take back an effect that waits')
    .argument('<effect>', EFFECT_NUMBER)
    .option('--reason <text>', 'kept with it', 'cancelled by hand')
    .action((effect: string, { reason }: { reason: string }) => cancelEffect(terminal, effect, reason));
  program
    .command('rerun')
    .description('run a finished effect once more')
    .argument('<effect>', EFFECT_NUMBER)
    .action((effect: string) => rerun(terminal, effect));
}

function addRepoCommands(program: Command, terminal: Terminal): void {
  const repo = program.command('repo').description('repositories: their limits and their objects');
  repo
    .command('list')
    .description("the repositories by name, and what each takes on this machine's disk")
    .option('--limit <n>', 'how many', whole(1, 10_000), 100)
    .option('--after <repo>', 'only those whose names come after this one')
    .action((options: { limit: number; after?: string }) => listRepos(terminal, options));
  repo
    .command('check [repo]')
    .description("fail if an object that a ref names is not on this machine's disk")
    .addOption(new Option('--all', 'every repository'))
    .option('--deep', 'look for everything that the refs reach, too')
    .action((repoId: string | undefined, options: CheckOptions) => checkRepos(terminal, repoId, options));
  repo
    .command('drop-lost <repo>')
    .description('delete the refs whose objects are gone for good')
    .option('--yes', 'do it; without it, only say which')
    .action((repoId: string, options: DropLostOptions) => dropLostRefs(terminal, repoId, options));
  repo
    .command('show <repo>')
    .description('its limits, its log and its objects')
    .action((repoId: string) => showRepo(terminal, repoId));
  repo
    .command('set <repo>')
    .description('change its limits')
    .option(
      '--cap <n>',
      "most effects at once, or none for the dispatcher's default",
      wholeOrNone(1, 100_000),
    )
    .option('--weight <n>', 'share of the service relative to other repositories', whole(1, 1000))
    .option('--max-queued <n>', 'most effects that may wait, or none', wholeOrNone(0, 2_147_483_647))
    .addOption(new Option('--pause', 'start nothing of it').conflicts('resume'))
    .option('--resume', 'start its effects again')
    .action((repoId: string, options: SetOptions) => setRepo(terminal, repoId, changesOf(options)));
}

function addLimitCommands(program: Command, terminal: Terminal): void {
  const limit = program.command('limit').description('limits of all repositories together');
  limit
    .command('show')
    .description('the limits, and what runs')
    .action(() => showLimit(terminal));
  limit
    .command('set')
    .description('change the limits')
    .option('--global-cap <n>', 'most effects at once, or none', wholeOrNone(1, 2_147_483_647))
    .action(({ globalCap }: { globalCap?: number | 'none' }) =>
      setLimit(
        terminal,
        globalCap === undefined ? {} : { globalCap: globalCap === 'none' ? null : globalCap },
      ),
    );
}

function addTokenCommands(program: Command, terminal: Terminal): void {
  const token = program
    .command('token')
    .description('passwords for git over HTTP, for a pusher with SLUICE_ACCOUNTS=required');
  type Options = {
    repo: string;
    scope: Scope[];
    expiresDays: number | 'none';
    maxRepos: number | 'none';
  };
  token
    .command('create <name>')
    .description('make a token for somebody and print it, once')
    .addHelpText('after', SCOPE_HELP)
    .requiredOption('--repo <pattern>', "a repository, a prefix such as 'acme/*', or '*'")
    .requiredOption('--scope <scopes>', `some of ${SCOPES.join(',')}`, scopes)
    .option('--expires-days <n>', 'days until it opens nothing any more, or none', wholeOrNone(1, 36_500), 90)
    .option(
      '--max-repos <n>',
      'most repositories that its owner may have made for it to make another, or none for no limit',
      wholeOrNone(0, 1_000_000),
      REPOS_MAX,
    )
    .action((name: string, { repo, scope, expiresDays, maxRepos }: Options) =>
      newToken(terminal, {
        name,
        repoPattern: repo,
        scopes: scope,
        expiresInDays: expiresDays === 'none' ? null : expiresDays,
        reposMax: maxRepos === 'none' ? null : maxRepos,
      }),
    );
  token
    .command('list')
    .description('the newest tokens, those that open nothing any more included')
    .option('--limit <n>', 'how many', whole(1, 10_000), 100)
    .action(({ limit }: { limit: number }) => showTokens(terminal, limit));
  token
    .command('revoke')
    .description('it opens nothing from its next request on')
    .argument('<token>', 'its number, as sluice token list shows it', whole(1, 9_999_999_999))
    .action((id: number) => withdrawToken(terminal, BigInt(id)));
}

const SCOPE_HELP = `
Scopes:
  read    clone and fetch
  write   push, and read
  admin   push below refs/meta/, where definitions, members and policy are, and write
  worker  push the results of effects; a dispatcher has read,worker for '*'`;

function scopes(text: string): Scope[] {
  const words = text.split(',');
  if (words.every(isScope)) return words;
  throw new InvalidArgumentError(`Expected some of ${SCOPES.join(',')}.`);
}

interface SetOptions {
  cap?: number | 'none';
  weight?: number;
  maxQueued?: number | 'none';
  pause?: true;
  resume?: true;
}

function changesOf({ cap, weight, maxQueued, pause, resume }: SetOptions): RepoChanges {
  return {
    ...(cap === undefined ? {} : { cap: cap === 'none' ? null : cap }),
    ...(weight === undefined ? {} : { weight }),
    ...(maxQueued === undefined ? {} : { maxQueued: maxQueued === 'none' ? null : maxQueued }),
    ...(pause || resume ? { isPaused: pause === true } : {}),
  };
}

function whole(min: number, max: number, more = ''): (text: string) => number {
  return (text) => {
    const value = /^\d{1,10}$/.test(text) ? Number(text) : -1;
    if (value >= min && value <= max) return value;
    throw new InvalidArgumentError(`Expected a whole number from ${min} to ${max}${more}.`);
  };
}

function wholeOrNone(min: number, max: number): (text: string) => number | 'none' {
  const parse = whole(min, max, ', or none');
  return (text) => (text === 'none' ? 'none' : parse(text));
}
