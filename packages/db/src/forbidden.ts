import { sqlState } from './postgres-errors.ts';
import { SCHEMA } from './schema.ts';
import { SluiceError } from './sluice-error.ts';

const INSUFFICIENT_PRIVILEGE = '42501';

/** The error to throw for one of the database: `database_forbidden` if the role lacks a right, else the same. */
export function orForbidden(error: unknown, needed: string): unknown {
  if (sqlState(error) !== INSUFFICIENT_PRIVILEGE) return error;
  return new SluiceError(
    'database_forbidden',
    `Schema ${SCHEMA}: expected a role of DATABASE_URL that ${needed}, got ${(error as Error).message}.`,
    { cause: error },
  );
}
