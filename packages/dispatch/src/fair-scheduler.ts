import { RepoHeap } from './repo-heap.ts';
import { newRepo, type Repo } from './scheduled-repo.ts';
import type { RepoShare, Turn, TurnResult } from './turn.ts';

/** Most effects a repo is given in a row before the next repo has its turn. */
export const QUANTUM = 8;

/**
 * How often in a row a repo may be found locked by other claimers before it lets others pass. Until then its turn is
 * repeated, since such a lock lasts for milliseconds, and slots given to others meanwhile would not be its share.
 */
const BUSY_IN_A_ROW_MAX = 8;

/**
 * Turns in which a repo is awaited after it was found busy with another claimer, and in which it is not after it was
 * awaited in vain. Three dispatchers with 200 slots each that took what the others left gave a repo of weight 1, beside 2
 * and 5, up to two and a half times its share; while they wait for each other each gets all that its plan says.
 */
const AWAIT_TURNS = 100;

/** How far, in quanta, a repo that let others pass may lag and still catch up. */
const CATCH_UP_QUANTA = 16;

/**
 * Decides which repos to claim from: start-time fair queueing over the repos believed to have work. It does no I/O,
 * reads no clock and owns no truth: if it is wrong about a repo, a claim finds less than it wanted, and it learns.
 *
 * Each repo has a start tag in virtual time. The lowest tag has the next turn, of at most `quantum` effects, and is
 * charged `got / weight`: what it was given, not what it asked for. A repo that was idle starts at the current virtual
 * time, so it waits for one round and has saved nothing; one that leaves keeps its tag until virtual time has passed
 * it, so leaving and coming back gains nothing.
 *
 * **Bound.** Over any interval in which repos i and j both have work and room,
 * `|served_i / weight_i - served_j / weight_j| <= quantum / weight_i + quantum / weight_j`, whatever the sizes of the
 * batches (theorem 1 of P. Goyal, H. M. Vin, H. Cheng: "Start-time Fair Queuing", SIGCOMM 1996). With n dispatchers
 * each keeps its own tags, so the bound of the whole is n times that; those that meet wait for each other. A quantum is
 * there to keep the number of repos of a claim small; claims that have room for a quantum of each repo leave a difference
 * of one effect each. Where the world gives less than was planned (a lock, the queue's global cap), the difference may
 * reach one batch; it is made up for, as it was not charged.
 *
 * **No starvation.** In the paper, virtual time is the tag of what is served. An endless stream of new repos, all
 * starting at that same tag, would then keep a repo waiting that was served once. Here it also rises with the work
 * done, by `served / sum of weights`, though never more than a quantum beyond the lowest tag: newcomers stay in reach.
 *
 * Cost: O(log n) for each effect planned, over n repos with work. A repo at its cap is in no heap.
 */
export class FairScheduler {
  readonly #defaultCap: number;
  readonly #quantum: number;
  readonly #repos = new Map<string, Repo>();
  readonly #queue = new RepoHeap();
  readonly #idle = new RepoHeap();
  readonly #full = new Set<Repo>();
  readonly #busy = new Set<Repo>();
  #claiming = 0;
  #virtualTime = 0;
  #highestTag = 0;
  #tickets = 0;
  /** Of all repos that are queued, claiming or busy. */
  #activeWeight = 0;
  /** Since virtual time was last moved. */
  #served = 0;

  constructor(options: { defaultCap: number; quantum?: number }) {
    this.#defaultCap = options.defaultCap;
    this.#quantum = options.quantum ?? QUANTUM;
  }

  /** Repos that it knows: those with work, with effects in hand, or with service still to be paid off. */
  get size(): number {
    return this.#repos.size;
  }

  /** Whether a plan would name a repo, now or after a moment. */
  get hasWork(): boolean {
    return this.#queue.peek() !== undefined || this.#busy.size > 0 || this.#claiming > 0;
  }

  /** Repos at their cap that are believed to have more work. */
  get fullCount(): number {
    return this.#full.size;
  }

  /** The repo has work, or may have. Also brings a changed weight or cap. */
  announce(share: RepoShare): void {
    const repo = this.#repo(share.repoId);
    this.#reweigh(repo, share.weight);
    const cap = share.cap ?? this.#defaultCap;
    const hasNewRoom = share.hasRoom === true || cap > repo.cap;
    repo.cap = cap;
    if (repo.state === 'idle') this.#enqueue(repo, this.#virtualTime);
    else if (repo.state === 'full' && hasNewRoom) this.#reopen(repo);
    else if (repo.state === 'claiming') repo.wasAnnounced = true;
  }

  /** The repo is known to have work; its weight and cap are as they were, or the defaults. */
  hint(repoId: string): void {
    const repo = this.#repos.get(repoId);
    if (repo === undefined) this.announce({ repoId, weight: 1, cap: null });
    else this.announce({ repoId, weight: repo.weight, cap: repo.cap });
  }

  /** The repo has nothing to claim: it is paused. Its tag stays. */
  withdraw(repoId: string): void {
    const repo = this.#repos.get(repoId);
    if (repo !== undefined && repo.state !== 'claiming' && repo.state !== 'idle') this.#retire(repo);
  }

  /** One of the repo's effects that this process held is finished or was given back. */
  release(repoId: string): void {
    const repo = this.#repos.get(repoId);
    if (repo === undefined) return;
    repo.held = Math.max(0, repo.held - 1);
    if (repo.state === 'full') this.#reopen(repo);
    else if (repo.state === 'claiming') repo.wasAnnounced = true;
    else if (repo.state === 'idle' && repo.held === 0) this.#retire(repo);
  }

  /** Lets up to `limit` of the repos that have been full for the longest be tried again. */
  retryFull(limit: number): void {
    let left = limit;
    for (const repo of this.#full) {
      if (left === 0) return;
      left -= 1;
      this.#reopen(repo);
    }
  }

  /**
   * The next turns, for `slots` effects in all, most urgent first. Every turn must be settled before the next plan.
   * An empty plan says that nothing can be claimed now; repos that sit it out are back in the one after it.
   */
  plan(slots: number): Turn[] {
    if (this.#claiming > 0)
      throw new Error(`expected all turns to be settled before the next plan, ${this.#claiming} are not`);
    this.#advance();
    const waiting = [...this.#busy];
    this.#busy.clear();
    const planned: Repo[] = [];
    let left = slots;
    while (left > 0) {
      const entry = this.#queue.pop();
      if (entry === undefined) break;
      const { repo } = entry;
      const room = repo.cap - repo.held - repo.want;
      if (repo.state === 'queued') {
        if (room <= 0) {
          this.#park(repo);
          continue;
        }
        planned.push(repo);
        this.#take(repo);
      }
      // One whose turn it is in this claim anyway costs nothing more: what it gets beyond is shared to the effect.
      const most = repo.want === 0 ? this.#quantum : 1;
      const chunk = Math.min(most, repo.likely, room, left);
      if (chunk <= 0) continue;
      repo.want += chunk;
      left -= chunk;
      repo.planned += chunk / repo.weight;
      this.#queue.enter(repo, repo.planned, this.#tickets++);
    }
    for (const repo of waiting)
      this.#enqueue(repo, this.#virtualTime - (CATCH_UP_QUANTA * this.#quantum) / repo.weight);
    return planned.map(({ repoId, want, awaits }) => ({
      repoId,
      want,
      ...(awaits > 0 ? { isAwaited: true } : {}),
    }));
  }

  /** Charges a turn for what it brought and learns from it. */
  settle(result: TurnResult): void {
    const repo = this.#repos.get(result.repoId);
    if (repo?.state !== 'claiming')
      throw new Error(`expected a repo whose turn is out, got ${result.repoId}`);
    if (result.share !== undefined) {
      this.#reweigh(repo, result.share.weight);
      repo.cap = result.share.cap ?? this.#defaultCap;
    }
    const wasFullTurn = result.got >= repo.want;
    this.#claiming -= 1;
    this.#activeWeight -= repo.weight;
    if (result.got > 0) {
      this.#virtualTime = Math.max(this.#virtualTime, repo.tag);
      this.#served += result.got;
      repo.tag += result.got / repo.weight;
      this.#highestTag = Math.max(this.#highestTag, repo.tag);
      repo.held += result.got;
    }
    const wasAnnounced = repo.wasAnnounced;
    repo.want = 0;
    repo.wasAnnounced = false;
    repo.ticket = -1;
    if (result.wait === 'in_vain') repo.awaits = -AWAIT_TURNS;
    else if (result.wait === 'worthwhile' && repo.awaits >= 0) repo.awaits = AWAIT_TURNS;
    else repo.awaits -= Math.sign(repo.awaits);
    if (result.isBusy) {
      this.#setAside(repo);
      return;
    }
    repo.busyInARow = 0;
    repo.likely = wasFullTurn ? Math.min(this.#quantum, repo.likely * 2) : 1;
    if (wasAnnounced || (result.hasMore && !result.isFull)) this.#enqueue(repo, repo.tag);
    else if (result.hasMore) this.#park(repo);
    else this.#retire(repo);
  }

  #repo(repoId: string): Repo {
    const known = this.#repos.get(repoId);
    if (known !== undefined) return known;
    const repo = newRepo(repoId, this.#defaultCap, this.#virtualTime);
    this.#repos.set(repoId, repo);
    return repo;
  }

  #reweigh(repo: Repo, weight: number): void {
    if (repo.state === 'queued' || repo.state === 'claiming' || repo.state === 'busy')
      this.#activeWeight += weight - repo.weight;
    repo.weight = weight;
  }

  #activate(repo: Repo, state: 'queued' | 'busy'): void {
    repo.state = state;
    this.#activeWeight += repo.weight;
  }

  /** Takes the repo out of whatever it is in. */
  #detach(repo: Repo): void {
    if (repo.state === 'queued' || repo.state === 'busy') this.#activeWeight -= repo.weight;
    this.#busy.delete(repo);
    this.#full.delete(repo);
    repo.ticket = -1;
  }

  #enqueue(repo: Repo, notBefore: number): void {
    if (repo.state !== 'claiming') this.#detach(repo);
    repo.tag = Math.max(repo.tag, notBefore);
    this.#activate(repo, 'queued');
    this.#queue.enter(repo, repo.tag, this.#tickets++);
  }

  #reopen(repo: Repo): void {
    this.#enqueue(repo, this.#virtualTime);
  }

  #take(repo: Repo): void {
    repo.state = 'claiming';
    this.#claiming += 1;
    repo.planned = repo.tag;
  }

  #park(repo: Repo): void {
    if (repo.state !== 'claiming') this.#detach(repo);
    repo.state = 'full';
    this.#full.add(repo);
  }

  #retire(repo: Repo): void {
    if (repo.state !== 'claiming') this.#detach(repo);
    repo.state = 'idle';
    repo.likely = 1;
    this.#idle.enter(repo, repo.tag, this.#tickets++);
    this.#prune();
  }

  #setAside(repo: Repo): void {
    repo.busyInARow += 1;
    if (repo.busyInARow <= BUSY_IN_A_ROW_MAX) {
      this.#enqueue(repo, repo.tag);
      return;
    }
    this.#activate(repo, 'busy');
    this.#busy.add(repo);
  }

  #advance(): void {
    if (this.#served === 0) return;
    const lowest = this.#queue.peek();
    if (lowest !== undefined) {
      const byWork = this.#virtualTime + this.#served / this.#activeWeight;
      this.#virtualTime = Math.max(this.#virtualTime, Math.min(byWork, lowest.tag + this.#quantum));
    }
    this.#served = 0;
    this.#prune();
  }

  /** Forgets idle repos that virtual time has passed. When nothing is left to serve, it passes all of them. */
  #prune(): void {
    if (!this.hasWork && this.#full.size === 0)
      this.#virtualTime = Math.max(this.#virtualTime, this.#highestTag);
    for (;;) {
      const entry = this.#idle.peek();
      if (entry === undefined || entry.tag > this.#virtualTime) return;
      this.#idle.pop();
      if (entry.repo.held === 0) this.#repos.delete(entry.repo.repoId);
    }
  }
}
