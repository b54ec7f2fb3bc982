import {
  CompiledQuery,
  PostgresAdapter,
  PostgresDialect,
  type Kysely,
  type RawBuilder,
  type Transaction,
} from 'kysely';

/** Marks databases whose connections send a statement without waiting for the answer to the one before. */
class PipeliningAdapter extends PostgresAdapter {}

export class PipeliningDialect extends PostgresDialect {
  override createAdapter(): PostgresAdapter {
    return new PipeliningAdapter();
  }
}

/** Whether {@link inOneTrip} can be used: a database of ours without a pooler, and not inside a transaction. */
export function canPipeline<DB>(db: Kysely<DB>): boolean {
  return !db.isTransaction && db.getExecutor().adapter instanceof PipeliningAdapter;
}

/**
 * Runs statements of a transaction one after the other and, unless there is a pooler, sends all of them at once: one
 * round trip whatever their number. Each has a snapshot of its own, as always, so that what stands behind a lock sees
 * what the lock waited for. If one fails, PostgreSQL refuses those after it; the first error is thrown.
 */
export async function sendTogether<DB>(
  trx: Transaction<DB>,
  statements: readonly CompiledQuery<unknown>[],
): Promise<unknown[][]> {
  const executor = trx.getExecutor();
  const isAtOnce = executor.adapter instanceof PipeliningAdapter;
  return await executor.provideConnection(async (connection) => {
    const rows: unknown[][] = [];
    if (!isAtOnce) {
      for (const query of statements) rows.push((await connection.executeQuery(query)).rows);
      return rows;
    }
    const answers = await Promise.allSettled(statements.map((query) => connection.executeQuery(query)));
    for (const answer of answers) {
      if (answer.status === 'rejected') throw answer.reason;
      rows.push(answer.value.rows);
    }
    return rows;
  });
}

const BEGIN = CompiledQuery.raw('begin isolation level read committed');
const COMMIT = CompiledQuery.raw('commit');
const ROLLBACK = CompiledQuery.raw('rollback');

/**
 * Runs statements in a READ COMMITTED transaction of their own and sends all of them, `begin` and `commit` included, at
 * once: one round trip whatever their number. Each has a snapshot of its own, as always. If one fails, PostgreSQL
 * refuses those after it and answers `commit` by rolling back; the first error is thrown.
 */
export async function inOneTrip<DB>(
  db: Kysely<DB>,
  statements: readonly (RawBuilder<unknown> | CompiledQuery)[],
): Promise<unknown[][]> {
  const compiled = statements.map((each) => ('compile' in each ? each.compile(db) : each));
  return await db.getExecutor().provideConnection(async (connection) => {
    const answers = await Promise.allSettled(
      [BEGIN, ...compiled, COMMIT].map((query) => connection.executeQuery(query)),
    );
    const failed = answers.find((answer) => answer.status === 'rejected');
    if (failed !== undefined) {
      // Nothing to roll back, unless `commit` itself was never sent.
      if (answers.at(-1)!.status === 'rejected')
        await connection.executeQuery(ROLLBACK).catch(() => undefined);
      throw failed.reason;
    }
    return answers.slice(1, -1).map((answer) => (answer.status === 'fulfilled' ? answer.value.rows : []));
  });
}
