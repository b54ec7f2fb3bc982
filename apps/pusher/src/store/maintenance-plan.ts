import type { Pack } from './list-packs.ts';
import type { LastPrune } from './prune-stamp.ts';

const DAY_MS = 24 * 60 * 60 * 1000;

/** Every push leaves a pack, and git looks through all of them; repacked in a geometric row, a few remain. */
const PACKS_MAX = 24;
/** Whatever a push needs of a pack is committed or given up long before. Time as well to find out what a lost commit was. */
const YOUNG_DAYS = 14;
const PRUNE_EVERY_DAYS = 7;
const FORGET_EVERY_DAYS = 30;

/** Whether a pack may be looked through for what nobody needs. */
export function isOld({ isHeld, modifiedMs }: Pack, nowMs: number): boolean {
  return !isHeld && nowMs - modifiedMs > YOUNG_DAYS * DAY_MS;
}

export interface MaintenancePlan {
  repack: boolean;
  prune: boolean;
}

/**
 * What a repository needs now. Pruning walks through all that is kept, so it waits until there is an old pack that the
 * last prune did not see; or, where former values are forgotten after a while, for a month.
 */
export function planMaintenance({
  packs,
  last,
  keepDays,
  nowMs,
}: {
  packs: readonly Pack[];
  last: LastPrune | null;
  keepDays: number | null;
  nowMs: number;
}): MaintenancePlan {
  const repack = packs.filter(({ isHeld }) => !isHeld).length > PACKS_MAX;
  const old = packs.filter((pack) => isOld(pack, nowMs));
  const days = last === null ? Infinity : (nowMs - last.atMs) / DAY_MS;
  const isUnseen = old.some(({ name }) => last?.clean.has(name) !== true);
  const prune =
    old.length > 0 &&
    ((isUnseen && days >= PRUNE_EVERY_DAYS) || (keepDays !== null && days >= FORGET_EVERY_DAYS));
  return { repack, prune };
}
