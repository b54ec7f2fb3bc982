import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { DB } from '@sluice/db';
import {
  readRepo,
  readServerKeys,
  repoFolder,
  verifyLog,
  type LogCheck,
  type VerifyLogOptions,
} from '@sluice/ref-store';
import type { Kysely } from 'kysely';
import { CommandError } from './command-error.ts';
import { createGit } from './git.ts';
import { iterateRepos } from './iterate-repos.ts';
import { Progress } from './progress.ts';
import { RepoObjects } from './rebuild/repo-objects.ts';
import { readDataFolder } from './settings.ts';
import { printableLine, type Terminal } from './terminal.ts';
import { SignedPushes } from './verify/signed-pushes.ts';
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
  const { repos, broken, unread } = await withDatabase(terminal, async (db) => {
    const trustedKeys = given ?? (await readServerKeys(db));
    return await verifyRepos(terminal, db, { repoId, trustedKeys });
  });
  const total = `${repos} ${repos === 1 ? 'repository' : 'repositories'}`;
  if (broken > 0) {
    throw new CommandError(
      `${broken} of ${total} ${broken === 1 ? 'does' : 'do'} not fit what was signed`,
      'Stop the pusher before anything builds on it, and compare with a backup: sluice op show shows a record.',
    );
  }
  if (unread === 0) return;
  throw new CommandError(
    `the members or policies of ${unread} of ${total} cannot be read, so who had to sign there is not known`,
    `Set SLUICE_DATA_DIR to the pusher's data folder, which is not ${readDataFolder(terminal.env)}, and run this again.`,
  );
}

async function verifyRepos(
  terminal: Terminal,
  db: Kysely<DB>,
  { repoId: only, trustedKeys }: { repoId: string | undefined } & Pick<VerifyLogOptions, 'trustedKeys'>,
): Promise<{ repos: number; broken: number; unread: number }> {
  const counts = { repos: 0, broken: 0, unread: 0 };
  for await (const repoId of iterateRepos(db, only)) {
    const signed = await openSignedPushes(terminal, db, repoId);
    const check = await verifyRepo(terminal, db, { repoId, trustedKeys, signed });
    counts.repos += 1;
    if (check.problems.length > 0) counts.broken += 1;
    if (signed.unread > 0) counts.unread += 1;
    terminal.stdout.write(describe(repoId, check, signed));
  }
  return counts;
}

async function openSignedPushes(terminal: Terminal, db: Kysely<DB>, repoId: string): Promise<SignedPushes> {
  const state = await readRepo(db, repoId);
  const gitDir = repoFolder(
    resolve(terminal.cwd, readDataFolder(terminal.env)),
    repoId,
    state?.objectFormat ?? 'sha1',
  );
  const objects = new RepoObjects({ repoId, gitDir, git: createGit(terminal.cwd, terminal.env) });
  return new SignedPushes({ repoId, objects });
}

async function verifyRepo(
  terminal: Terminal,
  db: Kysely<DB>,
  {
    repoId,
    trustedKeys,
    signed,
  }: Pick<VerifyLogOptions, 'repoId' | 'trustedKeys'> & { signed: SignedPushes },
): Promise<LogCheck> {
  const progress = new Progress(terminal);
  const { signal } = terminal;
  try {
    return await verifyLog(db, {
      repoId,
      trustedKeys,
      signal,
      alsoCheck: (inside, push, refs) => signed.check(inside, push, refs),
      alsoSigned: (outside, push) => signed.checkSignature(outside, push),
      onProgress: ({ step, records, total }) =>
        progress.show(`${repoId}: ${step === 'log' ? '' : 'signatures of '}${records} of ${total} pushes`),
    });
  } catch (error) {
    if (!signal.aborted) throw error;
    throw new CommandError(`interrupted in ${repoId}; what follows was not verified`, 'Run it again.');
  } finally {
    progress.clear();
  }
}

function describe(repoId: string, { records, problems }: LogCheck, { unread }: SignedPushes): string {
  const counted = `${repoId}: ${pushes(records)}`;
  const lines = problems
    .slice(0, PROBLEMS_SHOWN)
    .map(({ pushId, problem }) => (pushId === null ? problem : `push ${pushId}: ${problem}`));
  const more = problems.length - lines.length;
  if (more > 0) lines.push(`and ${more} more that do not fit`);
  if (unread > 0) lines.push(`${pushes(unread)} under members or a policy that cannot be read`);
  if (lines.length === 0) return `${counted}, all fits\n`;
  return `${counted}\n${lines.map((line) => `  ${printableLine(line)}\n`).join('')}`;
}

function pushes(count: number): string {
  return `${count} ${count === 1 ? 'push' : 'pushes'}`;
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
