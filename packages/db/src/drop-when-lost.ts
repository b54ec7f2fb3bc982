import type pg from 'pg';
import { sqlState } from './postgres-errors.ts';

/** admin_shutdown and its kin, idle_in_transaction_session_timeout, transaction_timeout: the session is over. */
const END_OF_SESSION = /^(57P|25P0[34])/;

/**
 * Ends the connection of a query that was given up after `query_timeout`, or was answered with the end of the session.
 * node-postgres keeps either, and the pool would give it to the next caller: behind a query that is never answered, or
 * before the end of the stream is seen.
 */
export function dropWhenLost(client: pg.ClientBase): void {
  const query = client.query.bind(client) as (...args: unknown[]) => unknown;
  const watched = (...args: unknown[]): unknown => {
    const answer = query(...args);
    if (answer instanceof Promise) {
      answer.catch((error: unknown) => {
        const isSilent = error instanceof Error && error.message === 'Query read timeout';
        const isOver = END_OF_SESSION.test(sqlState(error) ?? '');
        if (isSilent || isOver) (client as pg.Client).end().catch(() => undefined);
      });
    }
    return answer;
  };
  client.query = watched as typeof client.query;
}
