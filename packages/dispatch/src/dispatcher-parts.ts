import type { DB } from '@sluice/db';
import type { ClaimedEffect } from '@sluice/queue-core/dispatcher';
import type { Kysely } from 'kysely';
import type { BackoffRange } from './backoff.ts';
import type { Clock } from './clock.ts';
import type { DispatchEvent } from './dispatch-event.ts';
import type { RunContext, RunResult } from './run-result.ts';

/** What a dispatcher is made of: its options, checked, with every default filled in. */
export interface DispatcherParts {
  db: Kysely<DB>;
  heartbeatDb: Kysely<DB>;
  connectionString: string | undefined;
  slots: number;
  repoCap: number;
  leaseMs: number;
  beatMs: number;
  pollMs: number;
  graceMs: number;
  retry: BackoffRange;
  retentionDays: number;
  run: (effect: ClaimedEffect, context: RunContext) => Promise<RunResult>;
  emit: (event: DispatchEvent) => void;
  clock: Clock;
}
