import type { ContenderName } from '../contenders/contender.ts';
import type { Bench } from '../harness/suite.ts';
import { summarise, type Sample } from '../measure/statistics.ts';

/** Measures every contender in a fresh database, in turns, so that a slow minute of the machine meets all of them. */
export async function measureInTurns(
  bench: Bench,
  options: {
    contenders: readonly ContenderName[];
    rounds: { quick: number; full: number };
    unit: string;
    measure: (contender: ContenderName, url: string) => Promise<number>;
  },
): Promise<Record<string, Sample>> {
  const values = new Map<string, number[]>();
  for (const _round of bench.rounds(options.rounds)) {
    for (const contender of options.contenders) {
      const database = await bench.createDatabase(contender);
      const value = await options.measure(contender, database.url);
      await database.drop();
      values.set(contender, [...(values.get(contender) ?? []), value]);
      bench.progress(`${contender} ${value.toPrecision(4)} ${options.unit}`);
    }
  }
  return Object.fromEntries([...values].map(([contender, list]) => [contender, summarise(list)]));
}
