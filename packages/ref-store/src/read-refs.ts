import { PREPARED, SluiceError, type DB } from '@sluice/db';
import { sql, type Kysely, type Transaction } from 'kysely';
import type { Oid } from './oid.ts';

export interface RefRow {
  name: string;
  oid: Oid;
}

export interface ReadRefsOptions {
  /** Only names that begin with exactly these characters, such as `refs/heads/`. Nothing in it is a wildcard. */
  prefix?: string;
}

/** All refs of a repository, or those with a prefix, by name in byte order, at one instant. */
export async function readRefs(
  db: Kysely<DB>,
  repoId: string,
  options: ReadRefsOptions = {},
): Promise<RefRow[]> {
  return await refsQuery(db, repoId, options).execute();
}

/** The statement of {@link readRefs}. */
export function refsQuery(db: Kysely<DB>, repoId: string, { prefix = '' }: ReadRefsOptions = {}) {
  return selectRefs(db, repoId, prefix).modifyFront(PREPARED);
}

const PAGE_ROWS = 5000;

/**
 * The same, a few thousand at a time, for repositories with more refs than memory should hold. One instant too:
 * outside a transaction it reads in one of its own. Inside the caller's transaction that holds only if the
 * transaction is `repeatable read` or has the repository locked.
 */
export async function* iterateRefs(
  db: Kysely<DB>,
  repoId: string,
  options: ReadRefsOptions = {},
): AsyncGenerator<RefRow, void, undefined> {
  if (db.isTransaction) {
    yield* pages(db, repoId, options.prefix ?? '');
    return;
  }
  const trx = await db
    .startTransaction()
    .setIsolationLevel('repeatable read')
    .setAccessMode('read only')
    .execute();
  try {
    yield* pages(trx, repoId, options.prefix ?? '');
  } finally {
    await trx.rollback().execute();
  }
}

async function* pages(
  db: Kysely<DB>,
  repoId: string,
  prefix: string,
): AsyncGenerator<RefRow, void, undefined> {
  let after: string | undefined;
  for (;;) {
    let query = selectRefs(db, repoId, prefix).limit(PAGE_ROWS);
    if (after !== undefined) query = query.where('name', '>', after);
    const page = await query.execute();
    yield* page;
    if (page.length < PAGE_ROWS) return;
    after = page.at(-1)!.name;
  }
}

/** As one answer they would take ten times the memory that their names take. */
const LARGE_PAGE_ROWS = 20_000;

/**
 * All refs of a repository but those with a prefix (null: all), by name in byte order and at one instant, some thousands
 * at a time. By a cursor, of which a transaction has one: pages that each look for their beginning sort all refs anew
 * where the server's statistics do not know of them yet.
 */
export async function* refPages(
  trx: Transaction<DB>,
  repoId: string,
  { except }: { except: string | null },
): AsyncGenerator<RefRow[], void, undefined> {
  const query = except === null ? selectRefs(trx, repoId, '') : selectRefsExcept(trx, repoId, except);
  await sql`declare ref_pages no scroll cursor for ${query}`.execute(trx);
  for (;;) {
    const { rows } = await sql<RefRow>`fetch forward ${sql.lit(LARGE_PAGE_ROWS)} from ref_pages`.execute(trx);
    if (rows.length > 0) yield rows;
    if (rows.length < LARGE_PAGE_ROWS) return;
  }
}

function selectRefsExcept(trx: Transaction<DB>, repoId: string, prefix: string) {
  const all = selectRefs(trx, repoId, '').clearOrderBy();
  const end = endOfPrefix(prefix);
  let query = all.where('name', '<', prefix);
  // Two ranges of the index: a condition that excludes would read what is left out as well.
  if (end !== undefined) query = query.unionAll(all.where('name', '>=', end));
  return query.orderBy('name');
}

function selectRefs(db: Kysely<DB>, repoId: string, prefix: string) {
  if (!prefix.isWellFormed() || prefix.includes('\0')) {
    throw new SluiceError('invalid_argument', 'prefix: expected text without NUL and unpaired surrogates.');
  }
  let query = db.selectFrom('ref').select(['name', 'oid']).where('repo_id', '=', repoId).orderBy('name');
  if (prefix !== '') query = query.where('name', '>=', prefix);
  const end = endOfPrefix(prefix);
  if (end !== undefined) query = query.where('name', '<', end);
  return query;
}

/**
 * The first text after all texts with this prefix, in byte order (which for UTF-8 is the order of code points);
 * undefined if there is none. A range instead of LIKE: `%` and `_` are ordinary characters of names.
 */
export function endOfPrefix(prefix: string): string | undefined {
  const points = Array.from(prefix, (character) => character.codePointAt(0)!);
  while (points.length > 0) {
    const last = points.pop()!;
    if (last === 0x10ffff) continue;
    // The code points between are surrogates, which UTF-8 has no bytes for.
    points.push(last === 0xd7ff ? 0xe000 : last + 1);
    return String.fromCodePoint(...points);
  }
  return undefined;
}
