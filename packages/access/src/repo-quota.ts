import type { DB } from '@sluice/db';
import { sql, type Kysely, type Transaction } from 'kysely';

/** How many repositories first pushes may make. */
export interface RepoQuota {
  /** Whose first push it is; null: nobody in particular, whom the server's own limit holds. */
  account: string | null;
  /** Most that this account may have made, with whatever token; null: no limit. */
  accountMax: number | null;
  /** Most that there may be. */
  serverMax: number;
}

/** Why one more repository would be one too many; null if it would not, unless others make some meanwhile. */
export async function repoQuotaFault(db: Kysely<DB>, quota: RepoQuota): Promise<string | null> {
  return await judge(db, quota, 1);
}

const MAKING_LOCK = 5_108_302_199n;

/**
 * Why the repository that this transaction has made is one too many; null if it is not. Whoever else makes one waits
 * here until this transaction ends, so that no two of them count the same: call it last.
 */
export async function exceededRepoQuota(trx: Transaction<DB>, quota: RepoQuota): Promise<string | null> {
  await sql`select pg_advisory_xact_lock(${MAKING_LOCK})`.execute(trx);
  // A later statement, whose snapshot is newer than the lock.
  return await judge(trx, quota, 0);
}

async function judge(
  db: Kysely<DB>,
  { account, accountMax, serverMax }: RepoQuota,
  coming: number,
): Promise<string | null> {
  if (
    account !== null &&
    accountMax !== null &&
    (await count(db, account, accountMax + 1)) + coming > accountMax
  ) {
    return accountMax === 0
      ? `this token of ${account} makes no repositories; push to one that exists, or ask for a token with --max-repos`
      : `expected at most ${repositories(accountMax)} made by ${account}, and there are as many; push to one of them, or ask for a token with a larger --max-repos`;
  }
  if ((await count(db, null, serverMax + 1)) + coming > serverMax) {
    return `expected at most ${repositories(serverMax)} on this server (SLUICE_REPOS), and there are as many; push to one of them, or ask for a larger limit`;
  }
  return null;
}

function repositories(number: number): string {
  return `${number} ${number === 1 ? 'repository' : 'repositories'}`;
}

/** How many repositories there are, of one maker or of all; stops at `limit`. */
async function count(db: Kysely<DB>, account: string | null, limit: number): Promise<number> {
  const repos = db
    .selectFrom('repo')
    .select('repo_id')
    .$if(account !== null, (query) => query.where('made_by', '=', account))
    .limit(limit);
  const { found } = await db
    .selectFrom(repos.as('repos'))
    .select((eb) => eb.cast<number>(eb.fn.countAll(), 'integer').as('found'))
    .executeTakeFirstOrThrow();
  return found;
}
