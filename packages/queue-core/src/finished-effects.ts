import { dateOf, type DB, instant, table } from '@sluice/db';
import { sql, type Kysely } from 'kysely';
import { assertRepoId, assertWhole, invalid } from './assert-argument.ts';
import type { Outcome } from './claim.ts';
import type { EffectId } from './effect-id.ts';

export type FinishedState = 'done' | 'dead' | 'cancelled' | 'superseded' | 'skipped';

/** An effect that will not change any more. */
export interface FinishedEffect {
  effectId: EffectId;
  repoId: string;
  name: string;
  state: FinishedState;
  /** Of `done` only. */
  outcome: Outcome | null;
  reason: string | null;
  attempts: number;
  pushId: string | null;
  resultRef: string | null;
  enqueuedAt: Date;
  finishedAt: Date;
}

const STATES: readonly FinishedState[] = ['done', 'dead', 'cancelled', 'superseded', 'skipped'];
const LIMIT_MAX = 1_000;

/**
 * The newest finished effects, of one repo or of all, in one state or in any. Newest by the time they finished; by
 * their ids where all repos' or all done effects are asked for, since no index has those by time.
 */
export async function finishedEffects(
  db: Kysely<DB>,
  request: FinishedRequest = {},
): Promise<FinishedEffect[]> {
  const { rows } = await finishedStatement(request).execute(db);
  return rows.map((row) => ({
    effectId: BigInt(row.effect_id) as EffectId,
    repoId: row.repo_id,
    name: row.name,
    state: row.state,
    outcome: row.outcome,
    reason: row.reason,
    attempts: row.attempts,
    pushId: row.push_id,
    resultRef: row.result_ref,
    enqueuedAt: dateOf(row.enqueued_at),
    finishedAt: dateOf(row.finished_at),
  }));
}

interface FinishedRequest {
  repoId?: string | undefined;
  state?: FinishedState | undefined;
  /** The default is 100. */
  limit?: number | undefined;
}

/** The statement behind {@link finishedEffects}. */
export function finishedStatement({ repoId, state, limit = 100 }: FinishedRequest) {
  if (repoId !== undefined) assertRepoId('repoId', repoId);
  if (state !== undefined && !STATES.includes(state)) {
    throw invalid('state', STATES.join(', '), state, 'Pass one of these.');
  }
  assertWhole('limit', limit, 1, LIMIT_MAX);
  const ofRepo = repoId === undefined ? sql`true` : sql`repo_id = ${repoId}`;
  const isUndone = state !== undefined && state !== 'done';
  // Spelled out, since the index of what was not done is a partial one: it finds a dead effect among a million done.
  const inState =
    state === undefined
      ? sql`true`
      : sql`state = ${sql.lit(state)} and ${isUndone ? sql`state <> 'done'` : sql`true`}`;
  const order = repoId !== undefined || isUndone ? sql`h.finished_at desc` : sql`h.effect_id desc`;
  return sql<FinishedRow>`
    select effect_id::text, repo_id, name, state, outcome, reason, attempts, push_id, result_ref,
           ${instant(sql`enqueued_at`)} as enqueued_at, ${instant(sql`finished_at`)} as finished_at
      from ${table('effect_history')} h
     where ${ofRepo} and ${inState}
     order by ${order}
     limit ${limit}::int`;
}

interface FinishedRow {
  effect_id: string;
  repo_id: string;
  name: string;
  state: FinishedState;
  outcome: Outcome | null;
  reason: string | null;
  attempts: number;
  push_id: string | null;
  result_ref: string | null;
  enqueued_at: string;
  finished_at: string;
}
