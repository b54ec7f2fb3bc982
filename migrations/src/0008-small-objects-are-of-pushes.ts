import { sql, type Kysely } from 'kysely';

/** A small object is stored by the push that needs it, in its transaction; none is there before, and none is swept. */
export async function up(db: Kysely<unknown>): Promise<void> {
  for (const statement of STATEMENTS) await sql.raw(statement).execute(db);
}

export async function down(db: Kysely<unknown>): Promise<void> {
  await sql.raw('alter table small_object add column promoted_at timestamptz').execute(db);
  await sql.raw('update small_object set promoted_at = created_at').execute(db);
  await sql
    .raw('create index small_object_staged_idx on small_object (created_at) where promoted_at is null')
    .execute(db);
}

const STATEMENTS = [
  `alter table small_object drop column promoted_at`,
  `comment on table small_object is 'A small git object (op record, certificate) of a push, readable from any machine.'`,
  `comment on column small_object.created_at is 'When the push that brought it was committed.'`,
];
