import { Kysely, PostgresDialect, type LogConfig } from 'kysely';
import pg from 'pg';
import { dropWhenLost } from './drop-when-lost.ts';
import { PipeliningDialect } from './one-trip.ts';
import { prepareMarked } from './prepared.ts';
import { sluice } from './schema.ts';
import type { DB } from './tables.generated.ts';

export interface DatabaseOptions {
  /** `postgres://user:password@host:port/database`. */
  connectionString: string;
  /** Shown in `pg_stat_activity`, so that an operator sees who holds what. */
  applicationName: string;
  /** Most connections at once; the default is 10. */
  connectionsMax?: number;
  /** How long a connection may take to open, in ms; the default is 10,000. */
  connectTimeoutMs?: number;
  /** How long a query may go without an answer before the connection is taken for lost, in ms; by default for ever. */
  queryTimeoutMs?: number;
  /**
   * What is between here and the server. The default, `session`, is right for nothing and for a pooler that keeps a
   * connection as long as we do. With `transaction`, statements are neither prepared nor sent ahead of the answer to the
   * one before, which poolers in transaction mode do not all cope with (PgBouncer does from 1.21 on).
   */
  pooler?: 'session' | 'transaction' | undefined;
  /** As of Kysely: `['query', 'error']`, or a function that is told of each statement. */
  log?: LogConfig;
  /** Called with errors of idle connections, which nothing else would see. */
  onIdleError?: (error: Error) => void;
}

/** A Kysely instance over a pool of its own, in Sluice's schema, with `bigint` columns as `bigint`. */
export function createDatabase(options: DatabaseOptions): Kysely<DB> {
  const Dialect = options.pooler === 'transaction' ? PostgresDialect : PipeliningDialect;
  const db = new Kysely<DB>({
    dialect: new Dialect({ pool: createPool(options) }),
    ...(options.log === undefined ? {} : { log: options.log }),
  });
  const ours = sluice(db);
  ourPools.add(ours.getExecutor());
  return ours;
}

const ourPools = new WeakSet<object>();

/**
 * Whether this is what {@link createDatabase} returned: no transaction, no pinned connection, which have executors of
 * their own, and no pool of a caller's, whose hooks may set up each connection for the one who asked for it.
 */
export function isOurPool<T>(db: Kysely<T>): boolean {
  return ourPools.has(db.getExecutor());
}

/** The pool behind {@link createDatabase}, for callers that need a raw connection as well. */
export function createPool(options: DatabaseOptions): pg.Pool {
  const pool = new pg.Pool({
    connectionString: options.connectionString,
    application_name: options.applicationName,
    max: options.connectionsMax ?? 10,
    connectionTimeoutMillis: options.connectTimeoutMs ?? 10_000,
    ...(options.queryTimeoutMs === undefined ? {} : { query_timeout: options.queryTimeoutMs }),
    keepAlive: true,
    pipeline: options.pooler !== 'transaction',
    types: { getTypeParser: typeParser },
  });
  pool.on('error', options.onIdleError ?? (() => {}));
  // A connection that is lost between two statements of a transaction has no query to fail and is not idle either:
  // unheard, its error event would end the process. The next statement fails instead.
  pool.on('connect', (client) => {
    client.on('error', () => {});
    dropWhenLost(client);
    if (options.pooler !== 'transaction') prepareMarked(client);
  });
  return pool;
}

const INT8 = 20;

function typeParser(oid: number, format?: 'text' | 'binary'): (value: string) => unknown {
  if (oid === INT8 && format !== 'binary') return BigInt;
  return pg.types.getTypeParser(oid, format) as (value: string) => unknown;
}
