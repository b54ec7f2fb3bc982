import type { IncomingMessage } from 'node:http';
import { isUnavailable } from '@sluice/db';
import { isNoRoom, NO_ROOM } from '../git/no-room.ts';
import { HttpError, unavailable } from '../http-error.ts';
import { countRefusal } from './count-refusal.ts';
import type { Pusher } from './pusher.ts';

/** What a client is told about anything that was thrown, which is the cause where it may not be told. */
export function knownFailure(error: unknown): HttpError {
  if (error instanceof HttpError) return error;
  if (isUnavailable(error)) return unavailable('the database is not available', error);
  if (isNoRoom(error)) return new HttpError(503, NO_ROOM, { cause: error });
  return new HttpError(500, 'internal error; the server log has the cause', { cause: error });
}

/** Logs what is the server's fault, and counts what is not. */
export function noteFailure(
  { log, metrics }: Pusher,
  { method, url }: IncomingMessage,
  failure: HttpError,
): void {
  const { status, cause } = failure;
  // Busy is no fault of anything; what stands behind another 503 is one.
  const isBusy = status === 503 && cause === undefined;
  if (status < 500 || isBusy) countRefusal(metrics, status);
  if (status < 500) return;
  log[isBusy ? 'info' : 'error']({
    event: isBusy ? 'request_put_off' : 'request_failed',
    method,
    path: url?.split('?')[0],
    error: cause ?? failure,
  });
}
