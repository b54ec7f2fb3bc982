import { table, type DB } from '@sluice/db';
import { sql, type Kysely, type Transaction } from 'kysely';
import { scoped } from './plan-enqueue.ts';

/** An effect that would hold a key. */
export interface KeyRequest {
  effectId: bigint;
  repoId: string;
  dedupKey: string;
  isRetained: boolean;
}

/** A key that is freed each time we look is looked at this often; the first round decides unless others race us. */
const ROUNDS_MAX = 50;

/** The effect that has an effect's dedup key in force. */
export async function keyHolder(
  db: Kysely<DB>,
  { repoId, dedupKey }: { repoId: string; dedupKey?: string },
): Promise<bigint | undefined> {
  if (dedupKey === undefined) return undefined;
  const { rows } = await sql<{ effect_id: string }>`
    select effect_id::text from ${table('effect_dedup')}
     where repo_id = ${repoId} and dedup_key = ${dedupKey}`.execute(db);
  return rows[0] === undefined ? undefined : BigInt(rows[0].effect_id);
}

/**
 * Takes each key for the first request of it, or finds the effect that has it in force. `taken` are effects that hold
 * their key now, `inForce` the holders of the keys that were not free, by {@link scoped} repo and key.
 */
export async function acquireKeys(
  trx: Transaction<DB>,
  requests: readonly KeyRequest[],
): Promise<{ taken: Set<bigint>; inForce: Map<string, bigint> }> {
  const taken = new Set<bigint>();
  const inForce = new Map<string, bigint>();
  let open = new Map(
    requests.toReversed().map((request) => [scoped(request.repoId, request.dedupKey), request]),
  );
  for (let round = 0; open.size > 0; round += 1) {
    if (round === ROUNDS_MAX)
      throw new Error(`dedup keys kept changing hands during ${ROUNDS_MAX} looks at them`);
    for (const id of await insertKeys(trx, [...open.values()])) taken.add(id);
    open = new Map([...open].filter(([, request]) => !taken.has(request.effectId)));
    // Another statement, whose snapshot shows what the insert ran into; unless that is gone by now: then once more.
    if (open.size > 0) for (const [key, id] of await readKeys(trx, [...open.values()])) inForce.set(key, id);
    open = new Map([...open].filter(([key]) => !inForce.has(key)));
  }
  return { taken, inForce };
}

/** After supersession and refusals: takes keys from effects that no longer hold them and gives them to those that do. */
export async function moveKeys(
  trx: Transaction<DB>,
  change: {
    requests: readonly KeyRequest[];
    taken: ReadonlySet<bigint>;
    holders: ReadonlyMap<string, bigint>;
  },
): Promise<void> {
  const holds = ({ repoId, dedupKey, effectId }: KeyRequest) =>
    change.holders.get(scoped(repoId, dedupKey)) === effectId;
  const released = change.requests.filter((request) => change.taken.has(request.effectId) && !holds(request));
  if (released.length > 0) {
    const ids = released.map((request) => request.effectId);
    await sql`delete from ${table('effect_dedup')} k where k.effect_id = any(${ids}::bigint[])`.execute(trx);
  }
  const given = change.requests.filter((request) => !change.taken.has(request.effectId) && holds(request));
  if (given.length > 0) await insertKeys(trx, given);
}

async function insertKeys(trx: Transaction<DB>, requests: readonly KeyRequest[]): Promise<bigint[]> {
  const { rows } = await sql<{ effect_id: string }>`
    insert into ${table('effect_dedup')} (repo_id, dedup_key, effect_id, is_retained)
    select * from unnest(${requests.map((request) => request.repoId)}::text[],
                         ${requests.map((request) => request.dedupKey)}::text[],
                         ${requests.map((request) => request.effectId)}::bigint[],
                         ${requests.map((request) => request.isRetained)}::boolean[])
                         as given (repo_id, dedup_key, effect_id, is_retained)
     order by repo_id collate "C", dedup_key collate "C"
        on conflict (repo_id, dedup_key) do nothing
    returning effect_id::text`.execute(trx);
  return rows.map((row) => BigInt(row.effect_id));
}

async function readKeys(trx: Transaction<DB>, requests: readonly KeyRequest[]): Promise<[string, bigint][]> {
  const { rows } = await sql<{ repo_id: string; dedup_key: string; effect_id: string }>`
    select k.repo_id, k.dedup_key, k.effect_id::text
      from unnest(${requests.map((request) => request.repoId)}::text[],
                  ${requests.map((request) => request.dedupKey)}::text[]) as given (repo_id, dedup_key)
     cross join lateral (
            select k.repo_id, k.dedup_key, k.effect_id
              from ${table('effect_dedup')} k
             where k.repo_id = given.repo_id and k.dedup_key = given.dedup_key
            offset 0) k`.execute(trx);
  return rows.map((row) => [scoped(row.repo_id, row.dedup_key), BigInt(row.effect_id)]);
}
