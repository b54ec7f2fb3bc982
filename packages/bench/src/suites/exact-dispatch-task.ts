import { setTimeout as sleep } from 'node:timers/promises';
import type { Task } from '../harness/task.ts';

/** What the effects of this suite carry: how long they run, and how they end. */
export interface ExactPayload {
  ms: number;
  outcome: 'pass' | 'fail';
}

/** What a dispatcher reports. */
export type DispatchNews =
  | { what: 'registered'; dispatcherId: string }
  | { what: 'started'; effectId: bigint; claimNumber: bigint }
  | { what: 'accepted'; effectId: bigint; claimNumber: bigint }
  /** `isCompletion`: it had run to its end before it learned that its claim was lost, so it was not handed back. */
  | { what: 'stale'; claimNumber: bigint; isCompletion: boolean }
  /** The database refused a row that is there already: two claims of one effect, which locks are to prevent. */
  | { what: 'collision' };

const UNIQUE_VIOLATION = '23505';

export interface DispatchInput {
  url: string;
  slots: number;
  leaseMs: number;
}

/** A dispatcher that runs until it is stopped, and reports {@link DispatchNews}. */
export const dispatchTask: Task<DispatchInput, void> = {
  name: 'exact-dispatch',
  async run(_contender, { url, slots, leaseMs }, report, stop) {
    // Here and not above: the processes of other contenders load no part of Sluice.
    const { createDatabase, sqlState } = await import('@sluice/db');
    const { startDispatcher } = await import('@sluice/dispatch');
    const db = createDatabase({ connectionString: url, applicationName: 'bench-exact' });
    const tell = (news: DispatchNews) => report(news);
    const completions = new Set<bigint>();
    const dispatcher = await startDispatcher({
      db,
      connectionString: url,
      slots,
      // Out of reach: every repo has a cap of its own.
      repoCap: 1_000,
      leaseMs,
      beatMs: leaseMs / 5,
      pollMs: 250,
      // Deaf to its signal, as many programs are: the longer it believes in its claim, the better.
      async run({ payload, claimNumber }, { signal }) {
        const { ms, outcome } = JSON.parse(payload) as ExactPayload;
        await sleep(ms);
        if (!signal.aborted) completions.add(claimNumber);
        return { status: 'done', outcome };
      },
      onEvent(event) {
        if (event.name === 'dispatcher_registered') {
          tell({ what: 'registered', dispatcherId: event.dispatcherId });
        } else if (event.name === 'effect_started') {
          const { effectId, claimNumber } = event;
          tell({ what: 'started', effectId, claimNumber });
        } else if (event.name === 'effect_ended') {
          const { effectId, claimNumber, how } = event;
          const isCompletion = completions.delete(claimNumber);
          if (how === 'pass' || how === 'fail') tell({ what: 'accepted', effectId, claimNumber });
          else if (how === 'stale') tell({ what: 'stale', claimNumber, isCompletion });
        } else if ('error' in event && sqlState(event.error) === UNIQUE_VIOLATION)
          tell({ what: 'collision' });
      },
    });
    if (!stop.aborted) await new Promise((resolve) => stop.addEventListener('abort', resolve));
    await dispatcher.stop();
    await db.destroy();
  },
};
