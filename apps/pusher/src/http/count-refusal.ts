import type { PusherMetrics } from '../pusher-metrics.ts';

const BY_STATUS: Readonly<Record<number, string>> = {
  401: 'credentials',
  403: 'permission',
  408: 'too_slow',
  413: 'too_large',
  503: 'busy',
};

/** Counts a refusal by the status of its answer. Of 429 there are several, which are counted where they are found. */
export function countRefusal({ refusals }: PusherMetrics, status: number): void {
  if (status !== 429) refusals.inc({ reason: BY_STATUS[status] ?? 'malformed' });
}
