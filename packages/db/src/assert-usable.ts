import { sql, type Kysely } from 'kysely';
import { assertMigrated } from './assert-migrated.ts';
import { assertSuitable } from './assert-suitable.ts';
import { assertWritable } from './assert-writable.ts';
import { assertSequencesLead } from './lagging-sequences.ts';
import { SluiceError } from './sluice-error.ts';
import type { DB } from './tables.generated.ts';

/**
 * What a program asks of its database before it starts. Throws `database_unsuitable`, `database_read_only`,
 * `database_forbidden` or `schema_out_of_date`; writable before migrated, since on a standby that lags behind a missing
 * migration is not the fault.
 */
export async function assertUsable(db: Kysely<DB>): Promise<void> {
  await assertSuitable(db);
  await assertWritable(db);
  await assertDatesReadable(db);
  await assertMigrated(db);
  await assertSequencesLead(db);
}

/** pg reads dates as ISO writes them: 01/02/2026 would come as another day. */
async function assertDatesReadable(db: Kysely<DB>): Promise<void> {
  const { rows } = await sql<{ style: string }>`select current_setting('datestyle') as style`.execute(db);
  const { style } = rows[0]!;
  if (style.startsWith('ISO')) return;
  throw new SluiceError(
    'database_unsuitable',
    `DATABASE_URL: expected sessions with the DateStyle ISO, got ${style}.`,
    { next: "Set it for the role: alter role … set datestyle to 'ISO'." },
  );
}
