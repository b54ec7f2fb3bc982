import type { DB } from '@sluice/db';
import { useTestDatabase } from '@sluice/testkit';
import type { Kysely } from 'kysely';
import { describe, expect, test } from 'vitest';
import * as dispatcher from '../src/dispatcher.ts';
import * as repo from '../src/repo.ts';

const database = useTestDatabase();

/** Never a number of anything, whatever the bounds. */
const WRONG = [
  -1,
  0.5,
  Number.NaN,
  Number.POSITIVE_INFINITY,
  2 ** 31,
  2 ** 53,
  '5',
  null,
  undefined,
  5n,
] as never[];

type Call = (db: Kysely<DB>, value: never) => Promise<unknown>;

const turns = (want: number) => [{ repoId: 'a', want }];
const process = { host: 'h', pid: 1, slots: 1, leaseMs: 1 };

const CALLS: [field: string, isZeroFine: boolean, call: Call][] = [
  [
    'defaultCap',
    false,
    (db, defaultCap) => dispatcher.fairClaim(db, { claimedBy: 'w', turns: turns(1), defaultCap }),
  ],
  [
    'turns[0].want',
    false,
    (db, n) => dispatcher.fairClaim(db, { claimedBy: 'w', turns: turns(n), defaultCap: 1 }),
  ],
  ['limit', false, (db, limit) => repo.claimEffects(db, { repoId: 'a', claimedBy: 'w', limit })],
  [
    'limit',
    false,
    (db, limit) => dispatcher.dispatcherClaim(db, { claimedBy: 'w', limit, excludeRepos: [] }),
  ],
  ['limit', false, (db, limit) => dispatcher.promoteDue(db, { limit })],
  ['limit', false, (db, limit) => dispatcher.readyRepos(db, { limit })],
  ['slots', false, (db, slots) => dispatcher.registerDispatcher(db, { ...process, slots })],
  ['leaseMs', false, (db, leaseMs) => dispatcher.registerDispatcher(db, { ...process, leaseMs })],
  ['olderThanMs', true, (db, olderThanMs) => dispatcher.dispatcherRequeueStale(db, { olderThanMs })],
  [
    'retentionDays',
    false,
    (db, retentionDays) => dispatcher.maintainPartitions(db, { daysAhead: 1, retentionDays }),
  ],
  ['daysAhead', true, (db, daysAhead) => dispatcher.maintainPartitions(db, { daysAhead, retentionDays: 1 })],
];

describe.each(CALLS)('%s', (field, isZeroFine, call) => {
  const values = isZeroFine ? WRONG : [...WRONG, 0 as never];

  test.each(values)('is refused by name, with its bounds, when it is %s', async (value) => {
    const refused = call(database.db, value);
    await expect(refused).rejects.toMatchObject({ code: 'invalid_argument' });
    await expect(refused).rejects.toThrow(`${field}: expected a whole number from `);
    await expect(refused).rejects.toThrow(/ from [01] to \d+, got .+\. Pass one within these bounds\.$/);
  });
});
