import { table, type DB } from '@sluice/db';
import { sql, type Kysely } from 'kysely';
import { expect } from 'vitest';
import type { Claim } from '../src/claim.ts';
import { registerDispatcher } from '../src/dispatcher-lease.ts';
import type { ClaimFinding } from '../src/fair-claim.ts';
import type { QueueModel } from './queue-model.ts';

/** One session of the database, with the dispatcher that works through it. */
export interface Session {
  db: Kysely<DB>;
  dispatcherId: string;
  /** The last finding about each repo, whose low-water marks the next claim passes. */
  findings: Map<string, ClaimFinding>;
}

/** What one run of the model test works on. */
export interface World {
  sessions: Session[];
  repoIds: string[];
  /** Every claim ever made, open or not. */
  claims: Claim[];
}

/** A queue with nothing unfinished in it, repos that no earlier run has used, and a dispatcher for each session. */
export async function newWorld(dbs: readonly Kysely<DB>[], repoIds: string[]): Promise<World> {
  const [db] = dbs;
  await sql`
    with claims as (delete from ${table('effect_claim')}), effects as (delete from ${table('effect_queue')}),
         keys as (delete from ${table('effect_dedup')}), dispatchers as (delete from ${table('dispatcher')}),
         caps as (update ${table('queue_limit')} set global_cap = null)
    insert into ${table('repo')} (repo_id) select unnest(${repoIds}::text[])`.execute(db!);
  const sessions = await Promise.all(
    dbs.map(async (own) => ({ db: own, dispatcherId: await register(own), findings: new Map() })),
  );
  return { sessions, repoIds, claims: [] };
}

export function register(db: Kysely<DB>): Promise<string> {
  return registerDispatcher(db, { host: 'h', pid: 1, slots: 1, leaseMs: 3_600_000 });
}

/** States, attempts, claimants and dedup keys in force: as rows and as the model has them. */
export async function expectEqual(model: QueueModel, { sessions, repoIds }: World): Promise<void> {
  const { rows } = await sql<{ effects: object | null; keys: object | null }>`
    select (select jsonb_object_agg(effect_id, jsonb_build_array(state, attempts, claimant))
              from (select effect_id, state, attempts, case when finished_at is null then claimant end as claimant
                      from ${table('effect')} where repo_id = any(${repoIds}::text[])) e) as effects,
           (select jsonb_object_agg(repo_id || ' ' || dedup_key, effect_id) from ${table('effect_dedup')}) as keys`.execute(
    sessions[0]!.db,
  );
  const effects = [...model.effects.values()].map((effect) => [
    effect.id,
    [
      effect.state,
      effect.attempts + (effect.state === 'claimed' ? 1 : 0),
      effect.claim === null ? null : effect.claim.claimant,
    ],
  ]);
  expect(rows[0]!.effects ?? {}).toEqual(Object.fromEntries(effects));
  expect(rows[0]!.keys ?? {}).toEqual(
    Object.fromEntries([...model.keys].map(([key, id]) => [key, Number(id)])),
  );
}
