import { spawn, type ChildProcess } from 'node:child_process';

/**
 * Runs PostgreSQL and stops it as soon as its own standard input closes. The pipe closes when this process ends in
 * whatever way, kill -9 included, so no server outlives the program that started it. It has a session of its own: a
 * Ctrl-C in the terminal reaches the program, which then decides. A throwaway server's folder is removed at the end.
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
export const SUPERVISOR_NAME = 'sluice-postgres-supervisor';

export interface SuperviseOptions {
  command: readonly string[];
  env: NodeJS.ProcessEnv;
  /** File descriptor that takes the server's log. */
  log: number;
  /** INT: roll back what is open and write everything down. QUIT: leave at once. */
  signal: 'INT' | 'QUIT';
  removeAfter?: string;
}

/** Starts the command under the supervisor; ending the child's standard input stops it. */
export function supervise(options: SuperviseOptions): ChildProcess {
  return spawn(
    '/bin/sh',
    ['-c', SCRIPT, SUPERVISOR_NAME, options.signal, options.removeAfter ?? '', ...options.command],
    {
      detached: true,
      env: options.env,
      stdio: ['pipe', options.log, options.log],
    },
  );
}
