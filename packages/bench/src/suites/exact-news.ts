import type { DispatchNews } from './exact-dispatch-task.ts';

/** What all dispatchers of a run reported, those that were killed since included. */
export class News {
  /** The highest claim number of each effect that was started. */
  readonly latest = new Map<bigint, bigint>();
  /** By number, the effects of claims that were accepted as finished. */
  readonly accepted = new Map<bigint, bigint>();
  /** Numbers of claims that were too late. */
  readonly stale = new Set<bigint>();
  lateCompletions = 0;
  collisions = 0;

  note(news: DispatchNews): void {
    if (news.what === 'collision') this.collisions += 1;
    else if (news.what === 'accepted') this.accepted.set(news.claimNumber, news.effectId);
    else if (news.what === 'stale') {
      this.stale.add(news.claimNumber);
      if (news.isCompletion) this.lateCompletions += 1;
    } else if (news.what === 'started') {
      const latest = this.latest.get(news.effectId) ?? 0n;
      if (news.claimNumber > latest) this.latest.set(news.effectId, news.claimNumber);
    }
  }
}
