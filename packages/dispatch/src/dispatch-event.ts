/** What a dispatcher reports, for logs and metrics. Names and fields are fixed. */
export type DispatchEvent =
  | { name: 'dispatcher_registered'; dispatcherId: string }
  /** Its row was gone: all runs are aborted, and it comes back under a new id. */
  | { name: 'dispatcher_declared_dead'; dispatcherId: string }
  /** `unclosed`: claims of which the database said nothing in time. They come back when the lease is over. */
  | { name: 'dispatcher_stopped'; dispatcherId: string; handedBack: number; unclosed: number }
  | { name: 'heartbeat_failed'; error: unknown }
  | { name: 'effect_started'; effectId: bigint; claimNumber: bigint; repoId: string; attempt: number }
  /** `how` says what was written: an outcome, a retry, `dead`, `handed_back`, `settled` by the run itself, or `stale`. */
  | {
      name: 'effect_ended';
      effectId: bigint;
      claimNumber: bigint;
      repoId: string;
      attempt: number;
      how: EffectEnd;
      error?: string;
    }
  | { name: 'claim_failed'; error: unknown }
  /** Effects wait under a repo id that no function of ours accepts: whoever wrote the rows has to correct it. */
  | { name: 'repo_refused'; repoId: string }
  /** Claims of this dispatcher that it does not run: an answer was lost on the way. They were handed back. */
  | { name: 'claims_recovered'; count: number }
  | { name: 'completion_delayed'; waiting: number; error: unknown }
  /** The database refuses the values of this completion; the effect is failed instead. */
  | { name: 'completion_refused'; claimNumber: bigint; error: unknown }
  | { name: 'log_chunk_lost'; claimNumber: bigint; seq: number; bytes: number; error: unknown }
  | { name: 'stale_requeued'; count: number }
  /** It was set forward: nobody is declared dead, and no claim taken back, for what happened before. */
  | { name: 'database_clock_leapt'; aheadMs: number }
  | {
      name: 'upkeep_failed';
      task:
        'requeue_stale' | 'promote_due' | 'sweep' | 'look_for_arrivals' | 'maintain_partitions' | 'vacuum';
      error: unknown;
    }
  | { name: 'partitions_maintained'; created: string[]; dropped: string[]; skipped: string[] }
  | { name: 'listening' }
  | { name: 'listen_failed'; error: unknown };

export type EffectEnd =
  'pass' | 'fail' | 'timeout' | 'remote' | 'settled' | 'scheduled' | 'dead' | 'handed_back' | 'stale';
