import { PostgresAdapter, PostgresDialect, type CompiledQuery, type Transaction } from 'kysely';

/** Marks databases whose connections send a statement without waiting for the answer to the one before. */
class PipeliningAdapter extends PostgresAdapter {}

export class PipeliningDialect extends PostgresDialect {
  override createAdapter(): PostgresAdapter {
    return new PipeliningAdapter();
  }
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
