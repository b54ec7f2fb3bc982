import { expect, test } from 'vitest';
import { CapWatch, unlawful, type CapSnapshot } from './cap-watch.ts';

const snapshot = (parts: Partial<CapSnapshot>): CapSnapshot => ({
  total: 0,
  globalCap: 40,
  reposAtCap: 0,
  above: [],
  ...parts,
});

test('snapshots are counted by what they show, with the gaps between them', () => {
  const watch = new CapWatch();
  watch.add(snapshot({ total: 40, reposAtCap: 3 }), 100);
  watch.add(snapshot({ total: 39 }), 120);
  watch.add(snapshot({ total: 41, reposAtCap: 1 }), 170);
  expect(watch.report).toEqual({
    snapshots: 3,
    gaps: [20, 50],
    highestTotal: 41,
    aboveGlobalCap: 1,
    atGlobalCap: 1,
    atCap: 2,
    excesses: [],
  });
});

test('without a global cap nothing is above or at it', () => {
  const watch = new CapWatch();
  watch.add(snapshot({ total: 60, globalCap: null }), 0);
  expect(watch.report).toMatchObject({ highestTotal: 60, aboveGlobalCap: 0, atGlobalCap: 0 });
});

test('above a cap that was lowered, claims that began before are lawful, and later ones are not', () => {
  const excess = (repo: string, newestAt: number) => ({ repo, claims: 3, cap: 2, newestAt });
  const watch = new CapWatch();
  const seen = [excess('lowered', 9.9), excess('lowered', 10.1), excess('fixed', 1)];
  for (const one of seen) watch.add(snapshot({ above: [one] }), 0);
  expect(watch.report.excesses).toEqual(seen);
  expect(unlawful(seen, new Map([['lowered', 10]]))).toEqual([excess('lowered', 10.1), excess('fixed', 1)]);
});
