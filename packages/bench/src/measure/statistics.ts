/** What several runs of one measurement say together. */
export interface Sample {
  median: number;
  min: number;
  max: number;
  /** Distance of the two extremes as a share of the median: 0.1 means that runs differed by 10 %. */
  spread: number;
  runs: number;
}

/** Summarises the results of repeated runs. */
export function summarise(values: readonly number[]): Sample {
  if (values.length === 0) throw new Error('summarise: expected at least one value, got none');
  const median = percentile(values, 50);
  const min = Math.min(...values);
  const max = Math.max(...values);
  return { median, min, max, spread: median === 0 ? 0 : (max - min) / median, runs: values.length };
}

/** The value that `percent` of the values do not exceed, interpolated between neighbours. */
export function percentile(values: readonly number[], percent: number): number {
  if (values.length === 0) throw new Error('percentile: expected at least one value, got none');
  const sorted = Float64Array.from(values).sort();
  const position = ((sorted.length - 1) * percent) / 100;
  const below = Math.floor(position);
  const low = sorted[below]!;
  const high = sorted[Math.min(below + 1, sorted.length - 1)]!;
  return low + (high - low) * (position - below);
}
