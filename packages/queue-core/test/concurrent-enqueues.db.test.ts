import { createDatabase, table, type DB } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import fc from 'fast-check';
import { sql, type Kysely } from 'kysely';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { enqueueEffect, type NewEffect } from '../src/repo.ts';

const database = useTestDatabase();
const REFUSED = 'the database refuses this';
/** Of every limited repo. */
const ROOM = 3;
/** `MODEL_RUNS=2000` draws that many new ones; unset, the same few are run each time. */
const MODEL_RUNS = Number(process.env['MODEL_RUNS'] ?? 0);
const settings = MODEL_RUNS > 0 ? { numRuns: MODEL_RUNS } : { numRuns: 60, seed: 7421 };

let db: Kysely<DB>;
let runs = 0;

beforeAll(async () => {
  db = createDatabase({
    connectionString: database.url,
    applicationName: 'callers',
    connectionsMax: 4,
  });
  await sql`alter table ${table('effect_queue')} add constraint refused check (payload <> ${sql.lit(REFUSED)})`.execute(
    database.db,
  );
});
afterAll(() => db.destroy());

type Kind = 'plain' | 'later' | 'keyed' | 'limited' | 'refused' | 'wrong';
interface Call {
  kind: Kind;
  /** Which repo or key of its kind. */
  which: number;
}

const kind = fc.oneof(
  { weight: 6, arbitrary: fc.constant<Kind>('plain') },
  { weight: 4, arbitrary: fc.constantFrom<Kind>('later', 'keyed', 'limited', 'refused', 'wrong') },
);
const callers = fc.array(fc.array(fc.record({ kind, which: fc.nat(2) }), { maxLength: 12 }), {
  minLength: 1,
  maxLength: 12,
});

const repoOf = (run: number, { kind: of, which }: Call) =>
  `${run}/${of === 'limited' ? 'limited' : 'free'}/${which}`;

function effectOf(run: number, call: Call, payload: string): NewEffect {
  const effect = { repoId: repoOf(run, call), payload: call.kind === 'refused' ? REFUSED : payload };
  if (call.kind === 'later') return { ...effect, name: 'later', delayMs: 3_600_000, concurrencyGroup: 'g' };
  if (call.kind === 'keyed') return { ...effect, dedupKey: 'k' };
  return call.kind === 'wrong' ? { ...effect, priority: 1.5 } : effect;
}

type Answer = { call: Call; payload: string } & ({ id: bigint } | { code: unknown });

/** Each caller makes its calls one after the other, all callers at once. */
async function answersOf(run: number, plan: readonly (readonly Call[])[]): Promise<Answer[][]> {
  return await Promise.all(
    plan.map(async (calls, caller) => {
      const answers: Answer[] = [];
      for (const [index, call] of calls.entries()) {
        const payload = `${caller} ${index}`;
        const answer = await enqueueEffect(db, effectOf(run, call, payload)).then(
          (id) => ({ id }),
          (error: { code?: unknown }) => ({ code: error.code ?? error }),
        );
        answers.push({ call, payload, ...answer });
      }
      return answers;
    }),
  );
}

test(
  'concurrent callers get what each would get alone, and every effect is there once',
  async () => {
    const property = fc.asyncProperty(callers, async (plan) => {
      const run = (runs += 1);
      const limited = [0, 1, 2].map((which) => ({
        repo_id: repoOf(run, { kind: 'limited', which }),
        max_queued: ROOM,
      }));
      await database.db.insertInto('repo').values(limited).execute();
      const answers = await answersOf(run, plan);
      const all = answers.flat();
      const rows = await database.db
        .selectFrom('effect_queue')
        .select(['effect_id', 'repo_id', 'payload', 'name', 'run_at', 'concurrency_group', 'dedup_key'])
        .where('repo_id', 'like', `${run}/%`)
        .execute();
      const found = new Map(rows.map((row) => [row.effect_id, row]));
      const ofKind = (wanted: Kind, which?: number) =>
        all.filter(({ call }) => call.kind === wanted && (which === undefined || call.which === which));

      for (const answer of [...ofKind('refused'), ...ofKind('wrong')])
        expect(answer).toMatchObject({ code: answer.call.kind === 'wrong' ? 'invalid_argument' : '23514' });
      const kept = [...ofKind('plain'), ...ofKind('later')];
      for (const answer of ofKind('limited')) {
        if ('id' in answer) kept.push(answer);
        else expect(answer).toMatchObject({ code: 'queue_full' });
      }
      for (const which of [0, 1, 2]) {
        const room = ofKind('limited', which);
        expect(room.filter((answer) => 'id' in answer)).toHaveLength(Math.min(ROOM, room.length));
        const keyed = ofKind('keyed', which);
        const holders = keyed.filter(
          (answer) => 'id' in answer && found.get(answer.id)?.payload === answer.payload,
        );
        expect(new Set(keyed.map((answer) => 'id' in answer && answer.id)).size).toBe(
          keyed.length > 0 ? 1 : 0,
        );
        expect(holders).toHaveLength(keyed.length > 0 ? 1 : 0);
        kept.push(...holders);
      }
      for (const answer of kept) {
        expect(answer).toHaveProperty('id');
        if (!('id' in answer)) continue;
        const { run_at, ...row } = found.get(answer.id) ?? {};
        const { delayMs, ...effect } = effectOf(run, answer.call, answer.payload);
        expect(row).toEqual({
          effect_id: answer.id,
          repo_id: effect.repoId,
          payload: effect.payload,
          name: effect.name ?? '',
          concurrency_group: effect.concurrencyGroup ?? null,
          dedup_key: effect.dedupKey ?? null,
        });
        expect(run_at instanceof Date).toBe(delayMs !== undefined);
      }
      expect(new Set(kept.map((answer) => 'id' in answer && answer.id)).size).toBe(kept.length);
      expect(rows).toHaveLength(kept.length);
      for (const own of answers) {
        const ids = own.flatMap((answer) =>
          'id' in answer && answer.call.kind !== 'keyed' ? [answer.id] : [],
        );
        expect(ids).toEqual(ids.toSorted((a, b) => Number(a - b)));
      }
    });
    await fc.assert(property, settings);
  },
  MODEL_RUNS > 0 ? 3_600_000 : 300_000,
);
