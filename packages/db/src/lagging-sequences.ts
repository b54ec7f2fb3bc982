import { sql, type Kysely } from 'kysely';
import { SCHEMA, table } from './schema.ts';
import { SluiceError } from './sluice-error.ts';
import type { DB } from './tables.generated.ts';

/**
 * Rows that were copied without the sequences, by logical replication for instance, leave them behind the ids in use. No
 * constraint would refuse an id that a finished effect has already, so nothing may be enqueued there.
 */
export async function assertSequencesLead(db: Kysely<DB>): Promise<void> {
  const { isBehind, highest } = await readEffectIds(db);
  if (!isBehind) return;
  throw new SluiceError(
    'schema_out_of_date',
    `Schema ${SCHEMA}: expected effect ids to go on above ${highest}, got a sequence that is behind, as after a copy of rows without their sequences.`,
  );
}

/** Sets sequences that are behind the rows to where they would be, before anything runs there. */
export async function raiseSequences(db: Kysely<DB>): Promise<void> {
  const { isBehind } = await readEffectIds(db);
  if (!isBehind) return;
  await sql`select ${raised('effect_id_seq', 'effect_id', ['effect_queue', 'effect_history'])},
    ${raised('effect_claim_number_seq', 'claim_number', ['effect_claim', 'effect_history', 'effect_log'])}`.execute(
    db,
  );
}

/** Never set back: more may have been drawn than there are rows, by claims that were handed back for instance. */
function raised(
  sequence: 'effect_id_seq' | 'effect_claim_number_seq',
  column: 'effect_id' | 'claim_number',
  names: readonly ('effect_queue' | 'effect_claim' | 'effect_history' | 'effect_log')[],
) {
  const regclass = sql`${`${SCHEMA}.${sequence}`}::text::regclass`;
  const highest = sql.join(names.map((name) => sql`(select max(${sql.ref(column)}) from ${table(name)})`));
  return sql`setval(${regclass}, greatest(${highest}, pg_sequence_last_value(${regclass}), 1))`;
}

async function readEffectIds(db: Kysely<DB>): Promise<{ isBehind: boolean; highest: string }> {
  const { rows } = await sql<{ is_behind: boolean; highest: string }>`
    select coalesce(pg_sequence_last_value(${`${SCHEMA}.effect_id_seq`}::text::regclass), 0) < used.highest as is_behind,
           used.highest::text as highest
      from (select greatest((select max(effect_id) from ${table('effect_queue')}),
                            (select max(effect_id) from ${table('effect_history')}), 0) as highest) used`.execute(
    db,
  );
  return { isBehind: rows[0]!.is_behind, highest: rows[0]!.highest };
}
