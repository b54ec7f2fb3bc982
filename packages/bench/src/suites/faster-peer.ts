import type { Sample } from '../measure/statistics.ts';

/** The peer with the highest median. */
export function fasterPeer(peers: Readonly<Record<string, Sample>>): string {
  const [first] = Object.entries(peers).sort(([, one], [, other]) => other.median - one.median);
  if (first === undefined) throw new Error('expected at least one peer');
  return first[0];
}
