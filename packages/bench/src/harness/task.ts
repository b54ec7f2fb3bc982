import type { Contender } from '../contenders/contender.ts';

/** Tells the parent about something while the task runs. */
export type Report = (value: unknown) => void;

/**
 * Work that a contender does in a process of its own, so that all meet the same conditions: a fresh heap, an event
 * loop that nobody shares. Input and output travel as structured clones. `stop` is for tasks that go on until the parent
 * has seen enough.
 */
export interface Task<Input, Output> {
  /** Unique among all suites. */
  readonly name: string;
  readonly run: (contender: Contender, input: Input, report: Report, stop: AbortSignal) => Promise<Output>;
}
