import {
  createToken,
  hasScope,
  listTokens,
  revokeToken,
  type ListedToken,
  type NewToken,
} from '@sluice/access';
import { CommandError } from './command-error.ts';
import { formatInstant } from './format-instant.ts';
import { table, type Terminal } from './terminal.ts';
import { withDatabase } from './with-database.ts';

/** `sluice token create`: the token goes to standard output, once and alone; everything about it to standard error. */
export async function newToken(
  terminal: Terminal,
  wanted: NewToken & { reposMax: number | null },
): Promise<void> {
  const { token, tokenId, expiresAt } = await withDatabase(terminal, (db) => createToken(db, wanted));
  const until = expiresAt === null ? 'does not expire' : `expires ${formatInstant(expiresAt)}`;
  terminal.stderr.write(
    `token ${tokenId} of ${wanted.name} for ${wanted.repoPattern}: ${wanted.scopes.join(', ')}; ${until}\n` +
      'It is shown once and stored nowhere. It is the password; the user name may be anything.\n',
  );
  if (hasScope(wanted.scopes, 'write') && wanted.repoPattern.endsWith('*')) {
    const { reposMax } = wanted;
    const most = reposMax === null ? 'any number of' : `at most ${reposMax}`;
    const repositories = reposMax === 1 ? 'repository' : 'repositories';
    terminal.stderr.write(`${wanted.name} may make ${most} ${repositories} with it (--max-repos).\n`);
  }
  terminal.stdout.write(`${token}\n`);
}

/** `sluice token list`: the newest tokens, those that open nothing any more included. */
export async function showTokens(terminal: Terminal, limit: number): Promise<void> {
  const tokens = await withDatabase(terminal, (db) => listTokens(db, { limit }));
  const rows = tokens.map((token) => [
    String(token.tokenId),
    token.name,
    token.repoPattern,
    token.scopes.join(','),
    describeReposMax(token),
    formatInstant(token.createdAt),
    token.expiresAt === null ? 'never' : formatInstant(token.expiresAt),
    token.revokedAt === null ? token.standing : `revoked ${formatInstant(token.revokedAt)}`,
  ]);
  terminal.stdout.write(
    rows.length === 0
      ? 'there are no tokens\n'
      : table(['TOKEN', 'NAME', 'REPOSITORIES', 'SCOPES', 'MAX REPOS', 'MADE', 'EXPIRES', 'STANDING'], rows),
  );
}

/** `sluice token revoke`: it opens nothing from its next request on. */
export async function withdrawToken(terminal: Terminal, tokenId: bigint): Promise<void> {
  const revoked = await withDatabase(terminal, (db) => revokeToken(db, tokenId));
  if (revoked === undefined) {
    throw new CommandError(`there is no token ${tokenId}`, 'sluice token list shows the ones there are.');
  }
  terminal.stdout.write(`token ${tokenId} of ${revoked.name} is revoked\n`);
}

/** Whoever may not push makes no repositories, whatever the limit says. */
function describeReposMax({ scopes, reposMax }: ListedToken): string {
  if (!hasScope(scopes, 'write')) return '-';
  return reposMax === null ? 'no limit' : String(reposMax);
}
