import pg from 'pg';

/** Runs with one short-lived connection to the given database. */
export async function onServer<T>(url: string, run: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({
    connectionString: url,
    application_name: 'sluice-testkit',
    // A forwarded port accepts also when nobody answers behind it.
    connectionTimeoutMillis: 30_000,
  });
  // A server that goes away fails the query as well; unheard, this event would end the process.
  client.on('error', () => {});
  await client.connect();
  try {
    return await run(client);
  } finally {
    await client.end();
  }
}

/** The same server and user, another database. */
export function withDatabase(serverUrl: string, name: string): string {
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  return url.href;
}
