type Verdict = { isRetryable: boolean; isUnavailable: boolean };

const CONFLICT: Verdict = { isRetryable: true, isUnavailable: false };
const UNAVAILABLE: Verdict = { isRetryable: true, isUnavailable: true };

/**
 * Which failures go away by themselves. Retryable: the same transaction, run again, may succeed. Unavailable: no
 * server answered, or it has no room for a session. Keys are SQLSTATEs, SQLSTATE classes, and Node's error codes.
 */
const VERDICTS: Record<string, Verdict> = {
  '40001': CONFLICT, // serialization_failure
  '40P01': CONFLICT, // deadlock_detected
  '55P03': CONFLICT, // lock_not_available: lock_timeout passed
  '25P03': CONFLICT, // idle_in_transaction_session_timeout: this process stood still for too long
  '25P04': CONFLICT, // transaction_timeout: it waited for others, or this process was slow
  '57014': CONFLICT, // query_canceled: statement_timeout passed, as while another held the lock
  '08': UNAVAILABLE, // connection exceptions
  '53300': UNAVAILABLE, // too_many_connections
  '57P01': UNAVAILABLE, // admin_shutdown
  '57P02': UNAVAILABLE, // crash_shutdown
  '57P03': UNAVAILABLE, // cannot_connect_now
  '57P05': UNAVAILABLE, // idle_session_timeout, which the next statement is told of
  ECONNREFUSED: UNAVAILABLE,
  ECONNRESET: UNAVAILABLE,
  ECONNABORTED: UNAVAILABLE,
  EPIPE: UNAVAILABLE,
  ETIMEDOUT: UNAVAILABLE,
  EHOSTUNREACH: UNAVAILABLE,
  ENETUNREACH: UNAVAILABLE,
  ENOTFOUND: UNAVAILABLE,
  EAI_AGAIN: UNAVAILABLE,
};

/** Messages of node-postgres for a lost or absent connection; it gives these errors no code. */
const LOST_CONNECTION =
  /^(Connection terminated|timeout exceeded when trying to connect|timeout expired|Query read timeout|Client has encountered a connection error|Client was closed|Postgres connection has been discarded)/;

/** The SQLSTATE of an error that PostgreSQL reported, looking through causes; undefined for any other error. */
export function sqlState(error: unknown): string | undefined {
  for (const link of chain(error)) {
    // Both conditions: EPIPE has five capital letters too, but no severity.
    if (typeof link['severity'] === 'string' && typeof link['code'] === 'string') return link['code'];
  }
  return undefined;
}

/** Whether the same transaction may succeed when it is run again from its beginning. */
export function isRetryable(error: unknown): boolean {
  return verdict(error)?.isRetryable ?? false;
}

/** Whether no PostgreSQL server could be reached, or the connection was lost: an open COMMIT's outcome is unknown. */
export function isUnavailable(error: unknown): boolean {
  return verdict(error)?.isUnavailable ?? false;
}

function verdict(error: unknown): Verdict | undefined {
  const state = sqlState(error);
  if (state !== undefined) return VERDICTS[state] ?? VERDICTS[state.slice(0, 2)];
  for (const link of chain(error)) {
    // A stopped server takes its Unix socket with it; any other file that is missing stays missing.
    if (link['code'] === 'ENOENT' && link['syscall'] === 'connect') return UNAVAILABLE;
    const found = typeof link['code'] === 'string' ? VERDICTS[link['code']] : undefined;
    if (found !== undefined) return found;
    if (typeof link['message'] === 'string' && LOST_CONNECTION.test(link['message'])) return UNAVAILABLE;
  }
  return undefined;
}

const CAUSES_MAX = 8;

function* chain(error: unknown): Generator<Record<string, unknown>> {
  let link = error;
  for (let depth = 0; depth < CAUSES_MAX && typeof link === 'object' && link !== null; depth += 1) {
    yield link as Record<string, unknown>;
    link = (link as { cause?: unknown }).cause;
  }
}
