import { sql, type Kysely } from 'kysely';
import { SluiceError } from './sluice-error.ts';

/** Throws `database_read_only` if the server is a standby, or sessions there are read-only. */
export async function assertWritable<DB>(db: Kysely<DB>): Promise<void> {
  const { rows } = await sql<{ is_standby: boolean; is_read_only: boolean }>`
    select pg_is_in_recovery() as is_standby,
           current_setting('transaction_read_only') = 'on' as is_read_only`.execute(db);
  const { is_standby: isStandby, is_read_only: isReadOnly } = rows[0]!;
  if (!isStandby && !isReadOnly) return;
  const got = isStandby
    ? 'a standby. Point it at the primary server, or promote this one'
    : 'one whose sessions are read-only. Point it at the primary server, or set default_transaction_read_only to off';
  throw new SluiceError(
    'database_read_only',
    `DATABASE_URL: expected a server that accepts writes, got ${got}.`,
  );
}
