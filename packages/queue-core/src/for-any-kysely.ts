import { sluice, SluiceError, sqlState, type DB } from '@sluice/db';
import type { Kysely } from 'kysely';

type Operation = (db: never, ...rest: never[]) => Promise<unknown>;

/**
 * Operations as the doors offer them: whatever Kysely instance or transaction the caller has, with whatever plugins, each
 * statement runs as it is written and its rows come as PostgreSQL names them.
 */
export function forAnyKysely<T extends Record<string, Operation>>(operations: T): T {
  const offered = Object.entries(operations).map(([name, operation]) => [
    name,
    async (db: Kysely<DB>, ...rest: never[]) => {
      try {
        return await operation(sluice(db) as never, ...rest);
      } catch (error) {
        throw MISREAD_VALUE.has(sqlState(error) ?? '') ? driverUnsupported(error) : error;
      }
    },
  ]);
  return Object.fromEntries(offered) as T;
}

/** cannot_coerce, invalid_text_representation: what we send is checked before, so it was not sent as we mean it. */
const MISREAD_VALUE = new Set(['42846', '22P02']);

function driverUnsupported(cause: unknown): SluiceError {
  return new SluiceError(
    'driver_unsupported',
    `db: expected a Kysely instance over the pg driver, got one whose driver sends arrays or buffers in another form (${(cause as Error).message}).`,
    { next: 'Use PostgresDialect with a pool of pg, or createDatabase.', cause },
  );
}
