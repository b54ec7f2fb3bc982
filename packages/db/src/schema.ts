import { sql, WithSchemaPlugin, type Kysely, type RawBuilder, type Transaction } from 'kysely';
import { SluiceError } from './sluice-error.ts';
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

/** One for all, so that an instance which has it and nothing else is known as ours. */
const IN_OUR_SCHEMA = new WithSchemaPlugin(SCHEMA);

/**
 * A caller's own Kysely instance or transaction as Sluice's query functions take it: `enqueueEffect(sluice(trx), { … })`
 * runs inside the caller's transaction. It has the types of our tables, names our schema, and leaves the caller's plugins
 * out: one that renames columns or parses texts would change rows that we read.
 */
export function sluice<T>(transaction: Transaction<T>): Transaction<DB>;
export function sluice<T>(db: Kysely<T>): Kysely<DB>;
export function sluice<T>(db: Kysely<T>): Kysely<DB> {
  const own = db as unknown as Kysely<DB> | undefined;
  if (typeof own?.getExecutor !== 'function') {
    throw new SluiceError(
      'invalid_argument',
      `db: expected a Kysely instance or transaction, got ${own === null ? 'null' : typeof own}.`,
      { next: 'Pass one as the first argument.' },
    );
  }
  const { plugins } = own.getExecutor();
  if (plugins.length === 1 && plugins[0] === IN_OUR_SCHEMA) return own;
  return own.withoutPlugins().withPlugin(IN_OUR_SCHEMA);
}

function schemaName(value: string | undefined): string {
  if (value === undefined || value === '') return 'sluice';
  if (/^[a-z_][a-z0-9_]{0,62}$/.test(value) && !value.startsWith('pg_')) return value;
  throw new Error(
    `SLUICE_SCHEMA: expected a lower-case identifier such as sluice, got ${JSON.stringify(value)}. Unset it or correct it.`,
  );
}
