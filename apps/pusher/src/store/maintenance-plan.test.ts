import { expect, test } from 'vitest';
import type { Pack } from './list-packs.ts';
import { planMaintenance } from './maintenance-plan.ts';

const DAY_MS = 24 * 60 * 60 * 1000;
const NOW = Date.UTC(2030, 0, 1);
const daysAgo = (days: number): number => NOW - days * DAY_MS;

function packs(count: number, days: number, isHeld = false): Pack[] {
  return Array.from({ length: count }, (_, n) => ({
    name: `pack-${n}`,
    bytes: 1,
    modifiedMs: daysAgo(days),
    isHeld,
  }));
}

const plan = (
  given: Pack[],
  last: { pack: string; days: number } | null = null,
  keepDays: number | null = null,
) =>
  planMaintenance({
    packs: given,
    last: last === null ? null : { clean: new Set([last.pack]), atMs: daysAgo(last.days) },
    keepDays,
    nowMs: NOW,
  });

test.each([
  [24, false, false],
  [25, false, true],
  [25, true, false],
])('%i young packs, held by pushes: %s, are repacked: %s', (count, isHeld, repack) => {
  expect(plan(packs(count, 1, isHeld))).toEqual({ repack, prune: false });
});

test.each<
  [
    what: string,
    given: Pack[],
    last: { pack: string; days: number } | null,
    keepDays: number | null,
    prune: boolean,
  ]
>([
  ['nothing old', packs(3, 13), null, null, false],
  ['an old pack, never looked through', packs(1, 15), null, null, true],
  ['an old pack that a push still holds', packs(1, 15, true), null, null, false],
  ['an old pack, another look this week', packs(1, 15), { pack: 'pack-9', days: 6 }, null, false],
  ['an old pack, another look last week', packs(1, 15), { pack: 'pack-9', days: 8 }, null, true],
  ['only what the last look wrote', packs(1, 300), { pack: 'pack-0', days: 300 }, null, false],
  ['the same, where former values expire', packs(1, 300), { pack: 'pack-0', days: 31 }, 90, true],
  ['the same, within a month', packs(1, 300), { pack: 'pack-0', days: 29 }, 90, false],
])('%s', (_, given, last, keepDays, prune) => {
  expect(plan(given, last, keepDays).prune).toBe(prune);
});
