const FUZZ_RUNS = Number(process.env['FUZZ_RUNS'] ?? 0);

/**
 * `FUZZ_RUNS=200000` draws that many new cases, or one in `share` of them where each is dear; unset, the same few are
 * drawn each time.
 */
export function fuzzSettings({ few, share = 1 }: { few: number; share?: number }): {
  numRuns: number;
  seed?: number;
} {
  return FUZZ_RUNS > 0 ? { numRuns: Math.ceil(FUZZ_RUNS / share) } : { numRuns: few, seed: 7420 };
}

/** For a test that {@link fuzzSettings} may make long. */
export const FUZZ_MS_MAX = FUZZ_RUNS > 0 ? 3_600_000 : 120_000;
