import type { DB } from '@sluice/db';
import type { Kysely } from 'kysely';
import { until } from './until.ts';

/** One effect as a reader of the queue sees it. */
export interface EffectRow {
  effectId: bigint;
  name: string;
  state: string;
  outcome: string | null;
  reason: string | null;
  attempts: number;
  claimant: string | null;
  resultRef: string | null;
  claimedAt: Date | null;
}

/** All effects of a repository, oldest first. */
export async function effectsOf(db: Kysely<DB>, repoId: string): Promise<EffectRow[]> {
  const rows = await db
    .selectFrom('effect')
    .select([
      'effect_id as effectId',
      'name',
      'state',
      'outcome',
      'reason',
      'attempts',
      'claimant',
      'result_ref as resultRef',
      'claimed_at as claimedAt',
    ])
    .where('repo_id', '=', repoId)
    .orderBy('effect_id')
    .execute();
  return rows as EffectRow[];
}

/** Waits until the repository's only effect is as wanted. */
export async function untilEffect(
  db: Kysely<DB>,
  repoId: string,
  wanted: Partial<EffectRow>,
): Promise<EffectRow> {
  let seen: EffectRow[] = [];
  return await until(
    `the effect of ${repoId} is ${JSON.stringify(wanted)}`,
    async () => {
      seen = await effectsOf(db, repoId);
      const [effect] = seen;
      const isWanted = Object.entries(wanted).every(
        ([key, value]) => effect?.[key as keyof EffectRow] === value,
      );
      return seen.length === 1 && isWanted && effect;
    },
    () =>
      `It is ${JSON.stringify(seen, (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value))}`,
  );
}

/** Waits until a run of the effect has said something. */
export async function untilItSays(
  db: Kysely<DB>,
  { effectId, attempt }: { effectId: bigint; attempt: number },
  text: string,
): Promise<void> {
  await until(`attempt ${attempt} of effect ${effectId} says ${text}`, async () =>
    (await outputOf(db, { effectId, attempt })).includes(text),
  );
}

/** What the run of an effect has said so far. */
export async function outputOf(
  db: Kysely<DB>,
  { effectId, attempt }: { effectId: bigint; attempt: number },
): Promise<string> {
  const chunks = await db
    .selectFrom('effect_log')
    .select('bytes')
    .where('effect_id', '=', effectId)
    .where('attempt', '=', attempt)
    .orderBy('claim_number')
    .orderBy('seq')
    .execute();
  return Buffer.concat(chunks.map(({ bytes }) => bytes)).toString();
}

/** How often a result was stored in the repository. */
export async function resultPushes(db: Kysely<DB>, repoId: string): Promise<number> {
  const rows = await db
    .selectFrom('reflog')
    .select('push_id')
    .where('repo_id', '=', repoId)
    .where('name', 'like', 'refs/meta/results/%')
    .execute();
  return rows.length;
}
