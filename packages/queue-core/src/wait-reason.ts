import { dateOf } from '@sluice/db';

/** What an unfinished, unclaimed effect waits for: the first of these that applies. */
export type WaitReason =
  /** Its own time, set when it was enqueued. */
  | { kind: 'scheduled'; until: Date }
  /** The next attempt after one that failed. */
  | { kind: 'retry'; at: Date; attemptsSpent: number; lastError: string | null }
  | { kind: 'repo_paused'; since: Date }
  /** No dispatcher is registered and beating. */
  | { kind: 'no_dispatcher' }
  | { kind: 'repo_at_cap'; cap: number; running: number }
  | { kind: 'global_cap'; cap: number; running: number }
  /** Effects of its repo that come first. */
  | { kind: 'behind'; ahead: number }
  /** Nothing but its repo's turn. */
  | { kind: 'next' };

/** The facts of a waiting effect, as the queries that explain it read them. */
export interface WaitFacts {
  run_at: string | null;
  attempts: number;
  last_error: string | null;
  paused_at: string | null;
  is_dispatcher_alive: boolean;
  cap: number | null;
  repo_running: number;
  global_cap: number | null;
  all_running: number;
  ahead: number;
}

/** Decides what an effect waits for. `defaultCap` is the cap of a repo without its own; unknown: not judged. */
export function waitReason(facts: WaitFacts, defaultCap: number | undefined): WaitReason {
  const cap = facts.cap ?? defaultCap;
  const runAt = dateOf(facts.run_at);
  if (facts.paused_at !== null) return { kind: 'repo_paused', since: dateOf(facts.paused_at) };
  if (runAt !== null && facts.attempts > 0) {
    return { kind: 'retry', at: runAt, attemptsSpent: facts.attempts, lastError: facts.last_error };
  }
  if (runAt !== null) return { kind: 'scheduled', until: runAt };
  if (!facts.is_dispatcher_alive) return { kind: 'no_dispatcher' };
  if (cap !== undefined && facts.repo_running >= cap) {
    return { kind: 'repo_at_cap', cap, running: facts.repo_running };
  }
  if (facts.global_cap !== null && facts.all_running >= facts.global_cap) {
    return { kind: 'global_cap', cap: facts.global_cap, running: facts.all_running };
  }
  return facts.ahead > 0 ? { kind: 'behind', ahead: facts.ahead } : { kind: 'next' };
}
