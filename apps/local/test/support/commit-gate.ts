import type { DB } from '@sluice/db';
import { sql, type Kysely } from 'kysely';
import { until } from './until.ts';

/** Holds the transactions of pushes just before they are complete, for as long as a test wants. */
export interface CommitGate {
  /** From now on a push to the repository stops inside its transaction. */
  close(repoId: string): Promise<void>;
  /** Waits until a push is held. */
  untilHeld(): Promise<void>;
  open(): Promise<void>;
  /** Ends the database sessions of the pushes that are held. */
  breakHeld(): Promise<void>;
}

/** Adds the gate to a test's own database. */
export async function installCommitGate(db: Kysely<DB>): Promise<CommitGate> {
  await sql`create table if not exists public.held_repo (repo_id text primary key)`.execute(db);
  await sql`
    create or replace function public.hold_push() returns trigger language plpgsql as $$
    begin
      -- Not a lock: the time that a transaction waits for one is bounded.
      while exists (select from public.held_repo h where h.repo_id = new.repo_id) loop
        perform pg_sleep(0.01);
      end loop;
      return new;
    end $$`.execute(db);
  await sql`
    create or replace trigger hold_push after insert on sluice.op_record
      for each row execute function public.hold_push()`.execute(db);
  const held = sql<{ pid: number }>`
    select pid from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'`;
  return {
    close: async (repoId) => {
      await sql`insert into public.held_repo values (${repoId})`.execute(db);
    },
    open: async () => {
      await sql`delete from public.held_repo`.execute(db);
    },
    untilHeld: async () => {
      await until('a push is held in its transaction', async () => (await held.execute(db)).rows.length > 0);
    },
    breakHeld: async () => {
      await sql`
        select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and wait_event = 'PgSleep'`.execute(db);
    },
  };
}
