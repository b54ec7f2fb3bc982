import { sql, type Kysely, type RawBuilder, type Transaction } from 'kysely';
import type { DB } from './tables.generated.ts';

/**
 * The Postgres schema that holds every table: `sluice`, or what `SLUICE_SCHEMA` says. Fixed for the life of a process,
 * so that raw SQL can name it without asking; the search path is never relied on, since a caller's own connection
 * (or a transaction-mode pooler) has another one.
 */
export const SCHEMA = schemaName(process.env['SLUICE_SCHEMA']);

/** A table's, view's or sequence's full name for use inside raw SQL: `sql\`… from ${table('effect_queue')}\``. */
export function table(name: keyof DB | 'effect_id_seq' | 'effect_claim_number_seq'): RawBuilder<unknown> {
  return sql.id(SCHEMA, name);
}

/**
 * Types a caller's own Kysely instance or transaction for Sluice's query functions, so that they run inside the
 * caller's transaction: `enqueueEffect(sluice(trx), { … })`.
 */
export function sluice<T>(transaction: Transaction<T>): Transaction<DB>;
export function sluice<T>(db: Kysely<T>): Kysely<DB>;
export function sluice<T>(db: Kysely<T>): Kysely<DB> {
  return (db as unknown as Kysely<DB>).withSchema(SCHEMA);
}

function schemaName(value: string | undefined): string {
  if (value === undefined || value === '') return 'sluice';
  if (/^[a-z_][a-z0-9_]{0,62}$/.test(value) && !value.startsWith('pg_')) return value;
  throw new Error(
    `SLUICE_SCHEMA: expected a lower-case identifier such as sluice, got ${JSON.stringify(value)}. Unset it or correct it.`,
  );
}
