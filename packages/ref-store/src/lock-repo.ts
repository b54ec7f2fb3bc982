import { PREPARED, sendTogether, SluiceError, table, type DB } from '@sluice/db';
import { sql, type CompiledQuery, type RawBuilder, type Transaction } from 'kysely';
import { checkRefName } from './check-ref-name.ts';
import type { ObjectFormat, Oid } from './oid.ts';

/** A repository whose row this transaction holds: no other push to it commits before the transaction ends. */
export interface LockedRepo {
  readonly repoId: string;
  /** Whether this transaction made it. */
  readonly isNew: boolean;
  readonly objectFormat: ObjectFormat;
  /** The branch a clone checks out. */
  readonly headRef: string;
  readonly refsVersion: bigint;
  /** Sequence number of the newest op record; 0: none yet. */
  readonly opSeq: bigint;
  /** Push id of the newest op record. */
  readonly opTip: Oid | null;
  /** The transaction's start by the database clock, in seconds since 1970. */
  readonly transactionSeconds: bigint;
}

export interface LockRepoOptions {
  repoId: string;
  /** Create it if it does not exist. An existing one keeps its format, whatever is asked for here. */
  create?: { objectFormat: ObjectFormat; headRef?: string; madeBy?: string | null };
}

/**
 * Locks a repository for a push and returns its state, or undefined if it does not exist. Waits for the transaction
 * that holds it; so take it late, and never hold two.
 */
export async function lockRepo(
  trx: Transaction<DB>,
  { repoId, create }: LockRepoOptions,
): Promise<LockedRepo | undefined> {
  return (await lockRepoWith(trx, { repoId, create }, [])).repo;
}

/**
 * The same, in one trip with other statements: `before` it, and `after` it, which see what the lock waited
 * for. `rows` are those of `after`.
 */
export async function lockRepoWith(
  trx: Transaction<DB>,
  { repoId, create }: { repoId: string; create: LockRepoOptions['create'] | undefined },
  after: readonly CompiledQuery<unknown>[],
  before: readonly CompiledQuery<unknown>[] = [],
): Promise<{ repo: LockedRepo | undefined; rows: unknown[][] }> {
  if (create !== undefined) assertRepoId(repoId);
  const lock = forUpdateQuery(repoId).compile(trx);
  const send = async (): Promise<{ repo: LockedRepo | undefined; rows: unknown[][] }> => {
    const answers = (await sendTogether(trx, [...before, lock, ...after])).slice(before.length);
    const [row] = answers[0] as RepoRow[];
    return { repo: row === undefined ? undefined : toLockedRepo(repoId, row), rows: answers.slice(1) };
  };
  const found = await send();
  if (found.repo !== undefined || create === undefined) return found;
  const isNew = await makeRepo(trx, repoId, create);
  const made = await send();
  return { ...made, repo: made.repo === undefined ? undefined : { ...made.repo, isNew } };
}

/** Whether it was this transaction that made it. */
async function makeRepo(
  trx: Transaction<DB>,
  repoId: string,
  create: NonNullable<LockRepoOptions['create']>,
): Promise<boolean> {
  const wrong = create.headRef === undefined ? null : checkRefName(create.headRef);
  if (wrong !== null) throw new SluiceError('invalid_argument', `headRef: ${wrong}.`);
  const inserted = await trx
    .insertInto('repo')
    .values({
      repo_id: repoId,
      object_format: create.objectFormat,
      made_by: create.madeBy ?? null,
      ...(create.headRef === undefined ? {} : { head_ref: create.headRef }),
    })
    .onConflict((conflict) => conflict.column('repo_id').doNothing())
    .executeTakeFirst();
  return inserted.numInsertedOrUpdatedRows === 1n;
}

interface RepoRow {
  object_format: string;
  head_ref: string;
  refs_version: string;
  op_seq: string;
  op_tip: Oid | null;
  transaction_seconds: string;
}

function forUpdateQuery(repoId: string): RawBuilder<RepoRow> {
  return sql<RepoRow>`${PREPARED}
    select object_format, head_ref, refs_version::text, op_seq::text, op_tip,
      extract(epoch from now())::bigint::text as transaction_seconds
    from ${table('repo')} where repo_id = ${repoId} for update`;
}

function toLockedRepo(repoId: string, row: RepoRow): LockedRepo {
  return {
    repoId,
    isNew: false,
    objectFormat: row.object_format as ObjectFormat,
    headRef: row.head_ref,
    refsVersion: BigInt(row.refs_version),
    opSeq: BigInt(row.op_seq),
    opTip: row.op_tip,
    transactionSeconds: BigInt(row.transaction_seconds),
  };
}

/** The same rule as the table's CHECK `repo_id_is_a_short_path`, for an error that says what to do. */
function assertRepoId(repoId: string): void {
  if (/^[A-Za-z0-9._/@:+-]{1,200}$/.test(repoId)) return;
  throw new SluiceError(
    'invalid_argument',
    `repoId: expected 1 to 200 letters, digits or ._/@:+- such as acme/api, got ${JSON.stringify(repoId.slice(0, 80))}.`,
  );
}
