import type { ClaimTurn } from '../src/fair-claim.ts';
import type { NewEffect } from '../src/new-effect.ts';

/** Cap that the fair claims of the model test give to repos without one of their own. */
export const DEFAULT_CAP = 2;

export interface ModelEffect extends NewEffect {
  id: bigint;
  state: 'scheduled' | 'enqueued' | 'claimed' | 'done' | 'dead' | 'cancelled' | 'superseded' | 'skipped';
  attempts: number;
  /** Of a scheduled one: its place among those that are due; null: not due for long. */
  dueRank: number | null;
  /** Of a claimed one. */
  claim: { number: bigint; claimant: string } | null;
}

interface ModelRepo {
  cap: number | null;
  maxQueued: number | null;
  isPaused: boolean;
}

/** The whole queue as its contract tells it: effects in a list, worked through one operation at a time. */
export class QueueModel {
  readonly effects = new Map<bigint, ModelEffect>();
  /** `repo key` → the effect that has it in force. */
  readonly keys = new Map<string, bigint>();
  readonly repos: Map<string, ModelRepo>;
  globalCap: number | null = null;
  #due = 0;

  constructor(repoIds: readonly string[]) {
    this.repos = new Map(repoIds.map((id) => [id, { cap: null, maxQueued: null, isPaused: false }]));
  }

  list(...states: ModelEffect['state'][]): ModelEffect[] {
    return [...this.effects.values()].filter((effect) => states.includes(effect.state));
  }

  /** One after the other; what became of each, given the ids that the queue answered. */
  enqueue(batch: readonly NewEffect[], ids: readonly bigint[]): string[] {
    return batch.map((effect, index) => {
      const { repoId, dedupKey } = effect;
      const id = ids[index]!;
      const key = dedupKey === undefined ? undefined : `${repoId} ${dedupKey}`;
      const holder = key === undefined ? undefined : this.keys.get(key);
      if (holder !== undefined) return holder === id ? 'duplicate' : `duplicate of ${holder}, not ${id}`;
      const waiting = this.list('scheduled', 'enqueued').filter((other) => other.repoId === repoId);
      const victims = waiting.filter(
        (other) => effect.supersede === true && other.concurrencyGroup === effect.concurrencyGroup,
      );
      const { maxQueued } = this.repos.get(repoId)!;
      const isFull = maxQueued !== null && waiting.length - victims.length >= maxQueued;
      const state = isFull ? 'skipped' : effect.delayMs === undefined ? 'enqueued' : 'scheduled';
      this.effects.set(id, { ...effect, id, state, attempts: 0, dueRank: null, claim: null });
      if (isFull) return 'skipped';
      for (const victim of victims) this.#finish(victim, 'superseded');
      if (key !== undefined) this.keys.set(key, id);
      return 'queued';
    });
  }

  /** How many more effects of a repo may be claimed, all caps but the global one considered. */
  roomOf(repoId: string, defaultCap: number): number {
    const { cap, isPaused } = this.repos.get(repoId)!;
    const open = this.list('claimed').filter((effect) => effect.repoId === repoId).length;
    return isPaused ? 0 : Math.max(0, (cap ?? defaultCap) - open);
  }

  globalRoom(): number {
    return Math.max(0, (this.globalCap ?? Infinity) - this.list('claimed').length);
  }

  waitingOf(repoId: string): ModelEffect[] {
    return this.list('enqueued')
      .filter((effect) => effect.repoId === repoId)
      .toSorted((a, b) => (b.priority ?? 0) - (a.priority ?? 0) || byAge(a, b));
  }

  /** What a claim of one repo takes. What is due is brought forward first, if there is room for anything. */
  claimOfRepo(repoId: string, limit: number): ModelEffect[] {
    const room = Math.min(limit, this.roomOf(repoId, Infinity), this.globalRoom());
    if (room < 1) return [];
    this.#promote(this.#dueOnes().filter((effect) => effect.repoId === repoId));
    return this.waitingOf(repoId).slice(0, room);
  }

  /** What a fair claim takes: repo after repo, in the order of the turns. */
  fairClaim(turns: readonly ClaimTurn[]): ModelEffect[] {
    return turns
      .flatMap(({ repoId, want, sinceEffectId = 0n }) =>
        this.waitingOf(repoId)
          .filter((effect) => (effect.priority ?? 0) !== 0 || effect.id >= sinceEffectId)
          .slice(0, Math.min(want, this.roomOf(repoId, DEFAULT_CAP))),
      )
      .slice(0, this.globalRoom());
  }

  /** What the claim across all repos takes: the oldest, then those of them for which there is room. */
  claimOldest(limit: number, excludeRepos: readonly string[]): ModelEffect[] {
    this.#promote(this.#dueOnes());
    const room = new Map([...this.repos.keys()].map((repoId) => [repoId, this.roomOf(repoId, Infinity)]));
    return this.list('enqueued')
      .filter(({ repoId }) => !excludeRepos.includes(repoId) && room.get(repoId)! > 0)
      .toSorted(byAge)
      .slice(0, limit)
      .filter(({ repoId }) => {
        const left = room.get(repoId)!;
        room.set(repoId, left - 1);
        return left > 0;
      })
      .slice(0, this.globalRoom());
  }

  /** Gives effects to a claimant, and says what is wrong with that: beyond a cap, or not waiting. */
  give(
    claims: readonly { effectId: bigint; claimNumber: bigint; claimant: string }[],
    defaultCap: number,
  ): string[] {
    return claims.flatMap(({ effectId, claimNumber, claimant }) => {
      const effect = this.effects.get(effectId);
      if (effect?.state !== 'enqueued') return [`${effectId} was ${effect?.state ?? 'never there'}`];
      const problems: string[] = [];
      if (this.roomOf(effect.repoId, defaultCap) < 1) problems.push(`${effectId} is beyond its repo's cap`);
      if (this.globalRoom() < 1) problems.push(`${effectId} is beyond the global cap`);
      effect.state = 'claimed';
      effect.claim = { number: claimNumber, claimant };
      return problems;
    });
  }

  /** The effect that a claim holds; undefined: the claim is stale. */
  held(claimNumber: bigint): ModelEffect | undefined {
    return this.list('claimed').find((effect) => effect.claim?.number === claimNumber);
  }

  complete(claimNumber: bigint): 'completed' | 'stale' {
    const effect = this.held(claimNumber);
    if (effect === undefined) return 'stale';
    effect.attempts += 1;
    this.#finish(effect, 'done');
    return 'completed';
  }

  fail(
    claimNumber: bigint,
    how: { isPoison: boolean; isDueAtOnce: boolean },
  ): 'scheduled' | 'dead' | 'stale' {
    const effect = this.held(claimNumber);
    if (effect === undefined) return 'stale';
    effect.attempts += 1;
    if (how.isPoison || effect.attempts >= (effect.maxAttempts ?? 3)) {
      this.#finish(effect, 'dead');
      return 'dead';
    }
    effect.claim = null;
    effect.state = 'scheduled';
    effect.dueRank = how.isDueAtOnce ? this.nextRank() : null;
    return 'scheduled';
  }

  handBack(claimNumbers: readonly bigint[]): number {
    const held = [...new Set(claimNumbers)].flatMap((number) => this.held(number) ?? []);
    for (const effect of held) Object.assign(effect, { state: 'enqueued', claim: null });
    return held.length;
  }

  /** Takes back all claims of claimants that are gone; attempts are spent. */
  loseClaims(isGone: (claimant: string) => boolean): number {
    const lost = this.list('claimed').filter((effect) => isGone(effect.claim!.claimant));
    for (const effect of lost) {
      effect.attempts += 1;
      if (effect.attempts >= (effect.maxAttempts ?? 3)) this.#finish(effect, 'dead');
      else Object.assign(effect, { state: 'enqueued', claim: null });
    }
    return lost.length;
  }

  cancel(repoId: string, ids: readonly bigint[]): bigint[] {
    const cancelled = this.list('scheduled', 'enqueued')
      .filter((effect) => effect.repoId === repoId && ids.includes(effect.id))
      .toSorted(byAge);
    for (const effect of cancelled) this.#finish(effect, 'cancelled');
    return cancelled.map((effect) => effect.id);
  }

  promote(limit: number): bigint[] {
    const due = this.#dueOnes().slice(0, limit);
    this.#promote(due);
    return due.map((effect) => effect.id);
  }

  /** Later than every effect that became due so far. */
  nextRank(): number {
    this.#due += 1;
    return this.#due;
  }

  #dueOnes(): ModelEffect[] {
    return this.list('scheduled')
      .filter((effect) => effect.dueRank !== null)
      .toSorted((a, b) => a.dueRank! - b.dueRank!);
  }

  #promote(due: readonly ModelEffect[]): void {
    for (const effect of due) Object.assign(effect, { state: 'enqueued', dueRank: null });
  }

  #finish(effect: ModelEffect, state: 'done' | 'dead' | 'cancelled' | 'superseded'): void {
    Object.assign(effect, { state, claim: null, dueRank: null });
    const key = `${effect.repoId} ${effect.dedupKey}`;
    const isKept = state === 'done' && effect.retainDedupKey === true;
    if (!isKept && this.keys.get(key) === effect.id) this.keys.delete(key);
  }
}

function byAge(a: ModelEffect, b: ModelEffect): number {
  return a.id < b.id ? -1 : 1;
}
