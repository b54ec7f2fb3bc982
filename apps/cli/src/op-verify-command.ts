import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { DB } from '@sluice/db';
import { readServerKeys, verifyLog, type LogCheck, type VerifyLogOptions } from '@sluice/ref-store';
import type { Kysely } from 'kysely';
import { CommandError } from './command-error.ts';
import { iterateRepos } from './iterate-repos.ts';
import { Progress } from './progress.ts';
import { printableLine, type Terminal } from './terminal.ts';
import { withDatabase } from './with-database.ts';

export interface VerifyOptions {
  readonly all?: true;
  /** File with public keys to trust in place of the registered ones. */
  readonly key?: string;
}

/** Problems shown of one repository: the first says where its log stops to fit, and the rest mostly follows from it. */
const PROBLEMS_SHOWN = 5;

/** `sluice op verify`: fails if a record, a reflog row or a ref of any repository does not fit. */
export async function verifyOps(
  terminal: Terminal,
  repoId: string | undefined,
  { all, key }: VerifyOptions,
): Promise<void> {
  if ((repoId === undefined) !== (all === true)) {
    throw new CommandError('expected either a repository or --all', 'Such as sluice op verify acme/api.');
  }
  const given = key === undefined ? undefined : await readKeys(terminal, key);
  const { repos, broken } = await withDatabase(terminal, async (db) => {
    const trustedKeys = given ?? (await readServerKeys(db));
    return await verifyRepos(terminal, db, { repoId, trustedKeys });
  });
  if (broken === 0) return;
  throw new CommandError(
    `${broken} of ${repos} ${repos === 1 ? 'repository' : 'repositories'} ${broken === 1 ? 'does' : 'do'} not fit what was signed`,
    'Stop the pusher before anything builds on it, and compare with a backup: sluice op show shows a record.',
  );
}

async function verifyRepos(
  terminal: Terminal,
  db: Kysely<DB>,
  { repoId: only, trustedKeys }: { repoId: string | undefined } & Pick<VerifyLogOptions, 'trustedKeys'>,
): Promise<{ repos: number; broken: number }> {
  const progress = new Progress(terminal);
  const { signal } = terminal;
  let repos = 0;
  let broken = 0;
  for await (const repoId of iterateRepos(db, only)) {
    repos += 1;
    let check: LogCheck;
    try {
      check = await verifyLog(db, {
        repoId,
        trustedKeys,
        signal,
        onProgress: ({ records, total }) => progress.show(`${repoId}: ${records} of ${total} pushes`),
      });
    } catch (error) {
      if (!signal.aborted) throw error;
      throw new CommandError(`interrupted in ${repoId}; what follows was not verified`, 'Run it again.');
    } finally {
      progress.clear();
    }
    if (check.problems.length > 0) broken += 1;
    terminal.stdout.write(describe(repoId, check));
  }
  return { repos, broken };
}

function describe(repoId: string, { records, problems }: LogCheck): string {
  const counted = `${repoId}: ${records} ${records === 1 ? 'push' : 'pushes'}`;
  if (problems.length === 0) return `${counted}, all fits\n`;
  const shown = problems
    .slice(0, PROBLEMS_SHOWN)
    .map(({ pushId, problem }) => (pushId === null ? problem : `push ${pushId}: ${problem}`));
  const more = problems.length - shown.length;
  if (more > 0) shown.push(`and ${more} more that do not fit`);
  return `${counted}\n${shown.map((line) => `  ${printableLine(line)}\n`).join('')}`;
}

/** Public keys, one a line, with or without the principal of an allowed-signers file in front. */
async function readKeys(terminal: Terminal, file: string): Promise<VerifyLogOptions['trustedKeys']> {
  const next = 'Name a file with the lines that sluice key list shows under PUBLIC KEY.';
  let text: string;
  try {
    text = await readFile(resolve(terminal.cwd, file), 'utf8');
  } catch (error) {
    throw new CommandError(`cannot read ${file}: ${(error as NodeJS.ErrnoException).code}`, next);
  }
  const keys = [...text.matchAll(/^(?:[^\s#].*\s)?(ssh-ed25519 [A-Za-z0-9+/=]+)(?:\s.*)?$/gm)];
  if (keys.length === 0) throw new CommandError(`expected an ssh-ed25519 key in ${file}, got none`, next);
  return keys.map(([, publicKey]) => ({ publicKey: publicKey!, retiredAt: null }));
}
