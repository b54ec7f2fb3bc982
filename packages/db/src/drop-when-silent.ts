import type pg from 'pg';

/**
 * Ends the connection of a query that was given up after `query_timeout`. node-postgres keeps it, and the pool would
 * give it to the next caller, whose query waits on it behind the one that is never answered.
 */
export function dropWhenSilent(client: pg.ClientBase): void {
  const query = client.query.bind(client) as (...args: unknown[]) => unknown;
  const watched = (...args: unknown[]): unknown => {
    const answer = query(...args);
    if (answer instanceof Promise) {
      answer.catch((error: unknown) => {
        const isSilent = error instanceof Error && error.message === 'Query read timeout';
        if (isSilent) (client as pg.Client).end().catch(() => undefined);
      });
    }
    return answer;
  };
  client.query = watched as typeof client.query;
}
