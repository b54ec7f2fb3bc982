import { table, type DB } from '@sluice/db';
import { sql, type Kysely } from 'kysely';
import { vi } from 'vitest';

export interface CommitGate extends AsyncDisposable {
  /** Resolves once a push stands in COMMIT: everything is written, nothing is decided. */
  reached(): Promise<void>;
  /** Lets it and all later ones commit. */
  open(): Promise<void>;
  /** Ends the sessions that stand in COMMIT, as a crashed server would: they did not commit. */
  terminate(): Promise<void>;
}

const GATE = 742_001;

const standing = sql`select pid from pg_locks where locktype = 'advisory' and objid = ${sql.lit(GATE)} and not granted
  and database = (select oid from pg_database where datname = current_database())`;

/** Stops every push to this database in its COMMIT until opened, with a deferred trigger that waits for a lock. */
export async function closeCommitGate(db: Kysely<DB>): Promise<CommitGate> {
  await sql`create or replace function public.wait_at_gate() returns trigger language plpgsql as
    $$ begin
      -- A test may take longer than a push waits for a lock.
      perform set_config('lock_timeout', '0', true);
      perform pg_advisory_xact_lock_shared(${sql.lit(GATE)});
      return null;
    end $$`.execute(db);
  await sql`create constraint trigger wait_at_gate after insert on ${table('op_record')}
    deferrable initially deferred for each row execute function public.wait_at_gate()`.execute(db);
  const holder = await db.startTransaction().execute();
  await sql`select pg_advisory_xact_lock(${GATE})`.execute(holder);
  let isOpen = false;
  const open = async (): Promise<void> => {
    if (!isOpen) await holder.rollback().execute();
    isOpen = true;
  };
  return {
    async reached() {
      const look = async (): Promise<void> => {
        const { rows } = await standing.execute(db);
        if (rows.length === 0) throw new Error('no push stands in COMMIT');
      };
      await vi.waitFor(look, { timeout: 20_000, interval: 20 });
    },
    open,
    async terminate() {
      await sql`select pg_terminate_backend(pid) from (${standing}) s`.execute(db);
    },
    async [Symbol.asyncDispose]() {
      await open();
      await sql`drop trigger wait_at_gate on ${table('op_record')}`.execute(db);
    },
  };
}
