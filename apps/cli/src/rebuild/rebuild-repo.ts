import { inBoundedTransaction, table, type DB } from '@sluice/db';
import { enqueueEffects } from '@sluice/queue-core/repo';
import { lockRepo } from '@sluice/ref-store';
import { sql, type Kysely } from 'kysely';
import { CommandError } from '../command-error.ts';
import type { Obligation } from './obligations.ts';
import { Replay, type Gap, type ReplayOptions } from './replay.ts';

export interface RepoRebuild {
  pushes: number;
  /** Effects that came back, or would; `effectId` is null when nothing was written. */
  back: { effectId: bigint | null; name: string; ref: string; pushId: string }[];
  withResult: number;
  /** Effects of which the queue or its history knows. */
  withRow: number;
  superseded: number;
  gaps: Gap[];
}

const ENQUEUED_AT_ONCE = 10_000;

/**
 * Enqueues the effects that a repository's pushes asked for and that have neither a result nor a row. Reads the log
 * without a lock, and under the repository's lock only what was pushed meanwhile: a push cannot come in between.
 */
export async function rebuildRepo(
  db: Kysely<DB>,
  { isDryRun, ...options }: ReplayOptions & { isDryRun: boolean },
): Promise<RepoRebuild> {
  const { repoId } = options;
  const replay = new Replay(options);
  await replay.catchUp(db);
  const decided = await decide(db, replay, repoId);
  const describe = ({ back, ...counts }: Omit<RepoRebuild, 'pushes' | 'gaps'>): RepoRebuild => ({
    ...counts,
    back,
    pushes: replay.pushes,
    gaps: replay.gaps,
  });
  if (isDryRun || decided.open.length === 0) {
    return describe({ ...decided.counts, back: decided.open.map((one) => backOf(one, null)) });
  }
  return await inBoundedTransaction(db, async (trx) => {
    await lockRepo(trx, { repoId });
    await replay.catchUp(trx);
    const { open, counts } = await decide(trx, replay, repoId);
    const back: RepoRebuild['back'] = [];
    for (let at = 0; at < open.length; at += ENQUEUED_AT_ONCE) {
      const part = open.slice(at, at + ENQUEUED_AT_ONCE);
      const enqueued = await enqueueEffects(
        trx,
        part.map(({ effect }) => effect),
      );
      for (const [index, { status, effectId }] of enqueued.entries()) {
        // Left standing, it would count as decided, and never come back.
        if (status === 'skipped') throw noRoom(repoId, open.length);
        if (status === 'queued') back.push(backOf(part[index]!, effectId));
      }
    }
    return describe({ ...counts, withRow: counts.withRow + open.length - back.length, back });
  });
}

async function decide(
  db: Kysely<DB>,
  replay: Replay,
  repoId: string,
): Promise<{ open: Obligation[]; counts: Pick<RepoRebuild, 'withResult' | 'withRow' | 'superseded'> }> {
  const { open, withResult, superseded } = await replay.open(db);
  const rows = await readRows(
    db,
    repoId,
    open.map(({ effect }) => effect.dedupKey),
  );
  const lost = open.filter(({ effect }) => !rows.has(effect.dedupKey));
  return { open: lost, counts: { withResult, withRow: open.length - lost.length, superseded } };
}

/** Those of the keys that an effect has or had. */
async function readRows(
  db: Kysely<DB>,
  repoId: string,
  dedupKeys: readonly string[],
): Promise<ReadonlySet<string>> {
  if (dedupKeys.length === 0) return new Set();
  const { rows } = await sql<{ dedup_key: string }>`
    select dedup_key from ${table('effect_queue')}
     where repo_id = ${repoId} and dedup_key = any(${dedupKeys}::text[])
    union
    select dedup_key from ${table('effect_history')}
     where repo_id = ${repoId} and dedup_key = any(${dedupKeys}::text[])`.execute(db);
  return new Set(rows.map((row) => row.dedup_key));
}

function backOf({ effect, ref }: Obligation, effectId: bigint | null): RepoRebuild['back'][number] {
  return { effectId, name: effect.name, ref, pushId: effect.pushId };
}

function noRoom(repoId: string, count: number): CommandError {
  return new CommandError(
    `${repoId} has no room for ${count} effects, so none of it came back`,
    `Allow them to wait: sluice repo set ${repoId} --max-queued none. Then run this again.`,
  );
}
