import { startThrowawayPostgres } from '@sluice/local-postgres';
import pg from 'pg';

/** The same for every contender: durable, with memory and log space enough that no checkpoint falls into a short run. */
const SETTINGS: Record<string, string> = {
  fsync: 'on',
  synchronous_commit: 'on',
  full_page_writes: 'on',
  shared_buffers: '512MB',
  max_wal_size: '8GB',
  checkpoint_timeout: '30min',
  max_connections: '200',
};

/** A server of the suite's own, with an empty database for each run. */
export interface BenchServer extends AsyncDisposable {
  /** What SHOW says about the settings that matter, asserted to be what was asked for. */
  readonly settings: Record<string, string>;
  readonly version: string;
  /** Makes a database from a template in which `install` was called once per `key`. */
  createDatabase(key: string, install: (url: string) => Promise<void>): Promise<BenchDatabase>;
}

export interface BenchDatabase {
  url: string;
  /** Fresh statistics and a clean log, so that no run pays for the one before. */
  settle(): Promise<void>;
  drop(): Promise<void>;
}

/** Starts the server and refuses to go on if it is not set up as the results will say. */
export async function startBenchServer(): Promise<BenchServer> {
  const server = await startThrowawayPostgres({ settings: SETTINGS });
  try {
    const settings = await readSettings(server.url);
    const version = settings['server_version'] ?? '';
    const templates = new Map<string, string>();
    let databases = 0;
    return {
      settings,
      version,
      async createDatabase(key, install) {
        if (!templates.has(key)) {
          const template = `template_${templates.size}`;
          await withClient(server.url, (client) => client.query(`create database ${template}`));
          await install(urlOf(server.url, template));
          templates.set(key, template);
        }
        const name = `run_${(databases += 1)}`;
        await withClient(server.url, (client) =>
          client.query(`create database ${name} template ${templates.get(key)}`),
        );
        const url = urlOf(server.url, name);
        return {
          url,
          async settle() {
            await withClient(url, async (client) => {
              await client.query('vacuum analyze');
              await client.query('checkpoint');
            });
          },
          async drop() {
            await withClient(server.url, (client) => client.query(`drop database ${name} with (force)`));
          },
        };
      },
      [Symbol.asyncDispose]: () => server.stop(),
    };
  } catch (error) {
    await server.stop();
    throw error;
  }
}

/** Opens one connection for `use`, and closes it. */
export async function withClient<T>(url: string, use: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => {});
  await client.connect();
  try {
    return await use(client);
  } finally {
    await client.end();
  }
}

async function readSettings(url: string): Promise<Record<string, string>> {
  return await withClient(url, async (client) => {
    const found: Record<string, string> = {};
    for (const name of [...Object.keys(SETTINGS), 'server_version', 'autovacuum', 'jit', 'wal_level']) {
      const { rows } = await client.query<Record<string, string>>(`show ${name}`);
      found[name] = rows[0]?.[name] ?? '';
    }
    for (const [name, expected] of Object.entries(SETTINGS)) {
      if (found[name] !== expected)
        throw new Error(
          `the server's ${name}: expected ${expected}, got ${found[name]}. Nothing was measured.`,
        );
    }
    return found;
  });
}

function urlOf(serverUrl: string, database: string): string {
  const url = new URL(serverUrl);
  url.pathname = `/${database}`;
  return url.href;
}
