import { CompiledQuery, PostgresAdapter, PostgresDialect, type Kysely, type RawBuilder } from 'kysely';

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
  statements: readonly RawBuilder<unknown>[],
): Promise<unknown[][]> {
  const compiled = statements.map((statement) => statement.compile(db));
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
