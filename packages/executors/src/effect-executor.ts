/** What to run, and within which limits. Nothing in it chooses an executor or a privilege. */
export interface EffectSpec {
  /** Shell text for `/bin/sh -c`, or a program and its arguments. */
  command: { run: string } | { argv: readonly string[] };
  /** Variables beside the executor's own; see {@link EffectExecutor.run}. */
  env: Readonly<Record<string, string>>;
  /** A folder of this run alone. The command starts in its `work` folder; the executor may add others beside it. */
  folder: string;
  timeoutMs: number;
  /** Whether the command may use the network. */
  hasNetwork: boolean;
  limits: EffectLimits;
}

/** Bounds of one run. The kernel ignores the one on processes for root: run the dispatcher as an ordinary user. */
export interface EffectLimits {
  /** Processes and threads at once. */
  processesMax: number;
  /** Memory of each process. */
  memoryBytesMax: number;
  /** Size of each file written. */
  fileBytesMax: number;
  /** Output kept; the rest is read and dropped. */
  outputBytesMax: number;
}

export const DEFAULT_LIMITS: EffectLimits = {
  processesMax: 512,
  memoryBytesMax: 4 * 1024 ** 3,
  fileBytesMax: 4 * 1024 ** 3,
  outputBytesMax: 16 * 1024 ** 2,
};

export interface RunContext {
  /** Ends the run: every process of the effect is killed. */
  signal: AbortSignal;
  /** Takes output as it comes, standard output and error together. While its promise is pending no more is read. */
  onOutput: (bytes: Uint8Array) => Promise<void>;
}

export interface EffectStatus {
  /** `error`: the executor could not run the command or was told to stop; it says nothing about the command. */
  status: 'pass' | 'fail' | 'timeout' | 'error';
  /** 128 + n when the command died of signal n; null when it did not end by itself. */
  exitCode: number | null;
  /** Why it is not a pass, in one line; null for a pass. */
  reason: string | null;
  /** Output beyond the limit, or that `onOutput` did not take in time. */
  bytesLost: number;
}

/** Runs a command somewhere. */
export interface EffectExecutor {
  readonly name: 'bubblewrap' | 'host';
  /**
   * Runs to the end and leaves no process behind. The command sees a fixed `PATH`, `HOME`, `TMPDIR`, `LANG` and
   * `CI=true` beside its own variables, and nothing of the caller's environment. Never rejects for what a command does.
   */
  run(spec: EffectSpec, context: RunContext): Promise<EffectStatus>;
}
