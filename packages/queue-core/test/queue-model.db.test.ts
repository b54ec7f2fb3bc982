import { createDatabase, type DB } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import fc from 'fast-check';
import type { Kysely } from 'kysely';
import { afterAll, beforeAll, test } from 'vitest';
import { commands } from './model-commands.ts';
import { newWorld } from './model-world.ts';
import { QueueModel } from './queue-model.ts';

const SESSIONS = 3;
/** `MODEL_RUNS=2000` draws that many new sequences; unset, the same few are run each time. */
const MODEL_RUNS = Number(process.env['MODEL_RUNS'] ?? 0);
const settings = MODEL_RUNS > 0 ? { numRuns: MODEL_RUNS } : { numRuns: 50, seed: 7420 };

const database = useTestDatabase();
let dbs: Kysely<DB>[] = [];
let runs = 0;

beforeAll(() => {
  dbs = Array.from({ length: SESSIONS }, (_, index) =>
    createDatabase({
      connectionString: database.url,
      applicationName: `model ${index}`,
      connectionsMax: 1,
    }),
  );
});

afterAll(() => Promise.all(dbs.map((db) => db.destroy())));

test(
  'any sequence of operations leaves what the model says',
  async () => {
    const property = fc.asyncProperty(
      fc.commands([...commands], { maxCommands: 40, size: 'max' }),
      async (steps) => {
        runs += 1;
        const repoIds = ['a', 'b', 'c'].map((name) => `model/${runs}/${name}`);
        const world = await newWorld(dbs, repoIds);
        await fc.asyncModelRun(() => ({ model: new QueueModel(repoIds), real: world }), steps);
      },
    );
    await fc.assert(property, settings);
  },
  MODEL_RUNS > 0 ? 3_600_000 : 300_000,
);
