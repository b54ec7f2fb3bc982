import { appendFileSync, renameSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { createLogger, type Logger } from '@sluice/service-kit';
import { ADOPTED } from '../git/adopted-folder.ts';

const BYTES_MAX = 1024 * 1024;

/** Events of an adopted repository go to a file in it, and to the one before when that has grown. */
export function createHookLog(folder: string): Logger {
  const path = join(folder, ADOPTED.log);
  return createLogger({
    service: 'hook',
    format: 'json',
    write: (line) => {
      try {
        if ((statSync(path, { throwIfNoEntry: false })?.size ?? 0) > BYTES_MAX) renameSync(path, `${path}.1`);
        appendFileSync(path, line, { mode: 0o600 });
      } catch {
        // A disk that is full must not decide about a push.
      }
    },
  });
}
