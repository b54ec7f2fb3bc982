import { createToken, type Scope } from '@sluice/access';
import { commitFileAt, commitFiles, defineEffect, makeRepo, type Git, type GitResult } from '@sluice/testkit';
import { sql } from 'kysely';
import { beforeEach, expect } from 'vitest';
import { usePusher, type PusherFixture } from './use-pusher.ts';

/** A repository with a branch and a definition, on a pusher with accounts, and who pushes to it. */
export interface GovernedRepo {
  readonly pusher: PusherFixture;
  readonly repoId: string;
  /** Where the clone is that pushes. */
  readonly work: Git;
  /** The first commit of `main`. */
  readonly commit: string;
  /** The repository's URL with a new token of these scopes; `operator`: with the server's own token. */
  at(who: readonly Scope[] | 'operator', url?: string): Promise<string>;
  /** Pushes a policy as the operator. */
  setPolicy(yaml: string): Promise<void>;
  /** Pushes, and expects the refs that are named to be refused with their reasons, and nothing to be left of it. */
  expectRefused(
    remote: string,
    args: readonly string[],
    reasons: Readonly<Record<string, string>>,
    options?: { config?: readonly string[] },
  ): Promise<void>;
  /** Changes rows of the repository behind the pusher's back. */
  damage(change: (db: PusherFixture['database']['db']) => Promise<unknown>): Promise<void>;
  /** The refs, by name. */
  refs(): Promise<Record<string, string>>;
}

/** The reason that a push has for a ref whose only fault is its company. */
export const COMPANY = 'not applied: another ref of this push was refused';

const OPERATOR = 'the-operator';

/** A repository of its own for each test. */
export function useGovernedRepo(): GovernedRepo {
  const pusher = usePusher();
  let url: string;
  let repoId: string;
  let work: Git;
  let commit: string;
  let count = 0;

  const at: GovernedRepo['at'] = async (who, base = url) => {
    const scopes = who === 'operator' ? [] : who;
    const token =
      who === 'operator'
        ? OPERATOR
        : (
            await createToken(pusher.database.db, {
              name: 'x',
              repoPattern: 'governed/*',
              scopes,
              expiresInDays: 1,
            })
          ).token;
    return `${base.replace('//', `//x:${token}@`)}/${repoId}.git`;
  };

  const rowsOf = async (name: 'ref' | 'reflog' | 'op_record' | 'effect' | 'push_certificate' | 'repo') =>
    await pusher.database.db
      .selectFrom(name)
      .selectAll()
      .where('repo_id', '=', repoId)
      .orderBy(sql`${sql.ref(name)}::text`)
      .execute();

  const everything = async (): Promise<unknown> => [
    await rowsOf('repo'),
    await rowsOf('ref'),
    await rowsOf('reflog'),
    await rowsOf('op_record'),
    await rowsOf('effect'),
    await rowsOf('push_certificate'),
  ];

  beforeEach(async () => {
    ({ url } = await pusher.start({ SLUICE_ACCOUNTS: 'required', SLUICE_TOKEN: OPERATOR }));
    count += 1;
    repoId = `governed/r${count}`;
    work = await makeRepo(`${pusher.folder}/work`);
    commit = await commitFiles(work, { 'a.txt': `one ${count}` });
    await defineEffect(work, 'ci', 'on: [refs/heads/**]\nrun: make\n');
    await work(['push', '--quiet', await at('operator'), 'main', 'refs/meta/effects/ci']);
  });

  return {
    pusher,
    get repoId() {
      return repoId;
    },
    get work() {
      return work;
    },
    get commit() {
      return commit;
    },
    at,
    async setPolicy(yaml) {
      await commitFileAt(work, 'refs/meta/config', 'policy.yaml', yaml);
      await work(['push', '--quiet', await at('operator'), '+refs/meta/config']);
    },
    async expectRefused(remote, args, reasons, { config = [] } = {}) {
      const before = await everything();
      const pushed = await work.attempt([...config, 'push', '--porcelain', remote, ...args]);
      expect([pushed.code === 0, reasonsOf(pushed)]).toEqual([false, reasons]);
      expect(await everything()).toEqual(before);
    },
    async damage(change) {
      await change(pusher.database.db);
      // Else what the pusher has on disk would still count as up to date.
      await pusher.database.db
        .updateTable('repo')
        .set(({ eb }) => ({ refs_version: eb('refs_version', '+', 1n) }))
        .where('repo_id', '=', repoId)
        .execute();
    },
    async refs() {
      const rows = await rowsOf('ref');
      return Object.fromEntries(
        rows.map((row) => ('oid' in row && 'name' in row ? [row.name, row.oid] : [])),
      );
    },
  };
}

/** What git says of each ref that the server refused, by its name. */
function reasonsOf({ stdout }: GitResult): Record<string, string> {
  const lines = [...stdout.matchAll(/^!\t[^\t]*:(\S+)\t\[remote rejected\] \((.*)\)$/gm)];
  return Object.fromEntries(lines.map(([, name, reason]) => [name!, reason!]));
}
