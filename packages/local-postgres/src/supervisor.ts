import { spawn, type ChildProcess } from 'node:child_process';

/**
 * Runs a program and stops it as soon as its own standard input closes. The pipe closes when this process ends in
 * whatever way, kill -9 included, so nothing outlives the program that started it. It has a session of its own: a
 * Ctrl-C in the terminal reaches the starting program, which then decides.
 */
const SCRIPT = `
exec 3<&0
signal=$1 remove=$2
shift 2
"$@" </dev/null 3<&- &
server=$!
{ while read -r _ <&3; do :; done; kill -s "$signal" "$server"; } 2>/dev/null &
watch=$!
exec 3<&-
wait "$server"
code=$?
kill "$watch" 2>/dev/null
if [ -n "$remove" ]; then rm -rf -- "$remove"; fi
exit "$code"
`;

/** Marks the supervisor's command line, so that a later start can tell an orphaned server from a supervised one. */
export const SUPERVISOR_NAME = 'sluice-supervisor';

export interface SuperviseOptions {
  command: readonly string[];
  env: NodeJS.ProcessEnv;
  cwd?: string;
  /** File descriptor that takes the program's output: a file, since a pipe would break when this process is killed. */
  output: number;
  /** What the program is told when it shall end. */
  signal: 'INT' | 'QUIT';
  /** A folder to remove when the program has ended. */
  removeAfter?: string;
}

/** Starts a program that does not outlive this process; ending the child's standard input stops it. */
export function supervise(options: SuperviseOptions): ChildProcess {
  const { command, env, cwd, output, signal, removeAfter = '' } = options;
  return spawn('/bin/sh', ['-c', SCRIPT, SUPERVISOR_NAME, signal, removeAfter, ...command], {
    cwd,
    detached: true,
    env,
    stdio: ['pipe', output, output],
  });
}
