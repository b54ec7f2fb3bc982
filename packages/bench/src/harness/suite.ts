import type { ContenderName } from '../contenders/contender.ts';
import type { Sample } from '../measure/statistics.ts';
import type { BenchDatabase } from './bench-server.ts';
import type { RunningTask } from './bench-process.ts';
import type { Task } from './task.ts';

/** One of the things measured: a claim about Sluice, or a number to compare with. */
export interface Finding {
  /** What was compared, in a few words. */
  name: string;
  unit: string;
  sluice: Sample;
  peers: Partial<Record<string, Sample>>;
  /** What the target speaks of; its direction is in `target`. */
  ratio: number;
  /** The ratio demanded; absent: told for information. */
  target?: { atLeast: number } | { atMost: number };
  /** What the ratio divides by what. */
  ratioOf: string;
}

/** What a suite may use. */
export interface Bench {
  readonly isQuick: boolean;
  /** A fresh database with the contender's tables. */
  createDatabase(contender: ContenderName): Promise<BenchDatabase>;
  /** Runs a task in a process of its own. */
  run<Input, Output>(task: Task<Input, Output>, contender: ContenderName, input: Input): Promise<Output>;
  start<Input, Output>(
    task: Task<Input, Output>,
    contender: ContenderName,
    input: Input,
    onReport: (value: unknown) => void,
  ): RunningTask<Output>;
  /** Numbers of the rounds to measure: `quick` of them at most in a quick run, which also has a limit of time. */
  rounds(most: { quick: number; full: number }): Iterable<number>;
  progress(text: string): void;
}

export interface Suite {
  readonly name: string;
  /** One line for the reader of the result. */
  readonly about: string;
  readonly tasks: readonly Task<never, unknown>[];
  /** What is run in turns, and the findings; the headline first. */
  run(bench: Bench): Promise<Finding[]>;
}

/** Whether the finding's target is met; one without a target always is. */
export function isMet({ ratio, target }: Finding): boolean {
  if (target === undefined) return true;
  return 'atLeast' in target ? ratio >= target.atLeast : ratio <= target.atMost;
}
