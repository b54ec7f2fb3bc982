import { realpath } from 'node:fs/promises';
import { resolve } from 'node:path';
import { InvalidArgumentError, type Command } from 'commander';
import { CommandError } from '../command-error.ts';
import type { Terminal } from '../terminal.ts';
import type { InstallOptions } from './install-hook.ts';

/**
 * `sluice hook` and what is below it. What they need of the pusher is loaded by them alone: it would be a fifth of the
 * 0.8 s of processor time that `sluice queue` took with it.
 */
export function addHookCommands(program: Command, terminal: Terminal): void {
  const hook = program
    .command('hook')
    .description('pushes to a bare repository on any git server, committed by Sluice; git itself runs it')
    .action(() => serveHook(terminal));
  hook
    .command('install <folder>')
    .description('take the pushes to a bare repository over, and import its refs')
    .requiredOption('--repo <repo>', 'its name here, such as acme/api')
    .option('--admin <names>', 'who alone may change what is below refs/meta/, with commas between', names)
    .option(
      '--pusher-from <variable>',
      "the server's environment variable that says who pushes, by default SLUICE_PUSHER",
      variable,
    )
    .option('--replace', "make the refs that Sluice knows by that name the folder's")
    .action(async (folder: string, options: InstallOptions) => {
      const { installHook } = await import('./install-hook.ts');
      await installHook(terminal, folder, options);
    });
  hook
    .command('sync <folder>')
    .description('make the refs on disk those of the database, as each push does')
    .action(async (folder: string) => {
      const { syncRepository } = await import('./sync-repository.ts');
      await syncRepository(terminal, folder);
    });
  hook
    .command('remove <folder>')
    .description('leave a plain repository')
    .option('--offline', 'without the database: the refs stay as they are on disk')
    .action(async (folder: string, { offline }: { offline?: true }) => {
      const { removeHook } = await import('./remove-hook.ts');
      await removeHook(terminal, folder, { offline: offline === true });
    });
}

/** What git starts as proc-receive. */
async function serveHook({ cwd, env, stderr }: Terminal): Promise<void> {
  const gitDir = env['GIT_DIR'];
  if (gitDir === undefined || process.stdin.isTTY) {
    throw new CommandError(
      'expected to be started by git for a push, got no repository',
      'sluice hook install <folder> --repo <name> lets git start it.',
    );
  }
  // Whoever pushed may have left; the push is decided all the same.
  process.stderr.on('error', () => {});
  const { runHook } = await import('@sluice/pusher/adopted');
  const { settingsForPush } = await import('./settings-of-hook.ts');
  await runHook({
    folder: await realpath(resolve(cwd, gitDir)),
    gitPid: process.ppid,
    env,
    readSettings: () => settingsForPush(env),
    input: process.stdin,
    write: (bytes) => void process.stdout.write(bytes),
    show: (line) => void stderr.write(`${line}\n`),
  });
}

function names(text: string): string[] {
  const all = text.split(',');
  if (all.every((name) => name !== '' && !/\p{Cc}/u.test(name))) return all;
  throw new InvalidArgumentError('Expected names with commas between.');
}

function variable(text: string): string {
  if (/^[A-Za-z_][A-Za-z0-9_]*$/.test(text)) return text;
  throw new InvalidArgumentError('Expected the name of an environment variable.');
}
