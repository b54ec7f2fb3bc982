import type { EffectSpec } from './effect-executor.ts';

/** Arguments for `/bin/sh` that run the rest with error output in the same pipe as output, so that lines keep their order. */
export const MERGE_OUTPUT = ['-c', 'exec "$@" 2>&1', 'sh'] as const;

/** The command as a program and its arguments. */
export function commandArguments(command: EffectSpec['command']): readonly string[] {
  return 'run' in command ? ['/bin/sh', '-c', command.run] : command.argv;
}
