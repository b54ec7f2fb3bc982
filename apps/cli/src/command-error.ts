import { ERROR_CATALOGUE, isUnavailable, SluiceError, sqlState } from '@sluice/db';
import { printable, printableLine } from './terminal.ts';
import { withoutCredentials } from './without-credentials.ts';

/** What went wrong in one line, and in another what to do next. */
export class CommandError extends Error {
  readonly next: string;

  constructor(message: string, next: string) {
    super(message);
    this.name = 'CommandError';
    this.next = next;
  }
}

/** The lines a person sees for an error: never a stack trace, never a credential. */
export function explain(error: unknown): string {
  const { what, next } = describe(error);
  const [first = '', ...details] = printable(withoutCredentials(what)).trim().split('\n');
  return [`sluice: ${first}`, ...details, `  next: ${printableLine(withoutCredentials(next))}`, ''].join(
    '\n',
  );
}

/** read_only_sql_transaction. */
const READ_ONLY = '25006';
/** insufficient_privilege. */
const FORBIDDEN = '42501';

function describe(error: unknown): { what: string; next: string } {
  if (error instanceof CommandError) return { what: error.message, next: error.next };
  if (error instanceof SluiceError) return { what: error.what, next: error.next };
  if (isCatalogued(error)) return { what: error.message, next: ERROR_CATALOGUE[error.code].next };
  const message = error instanceof Error && error.message !== '' ? error.message : nestedMessage(error);
  if (isUnavailable(error)) {
    const { summary, next } = ERROR_CATALOGUE.database_unavailable;
    return { what: `${summary} (${message})`, next };
  }
  const state = sqlState(error);
  if (state === READ_ONLY) {
    const { summary, next } = ERROR_CATALOGUE.database_read_only;
    return { what: summary, next };
  }
  if (state === FORBIDDEN) {
    return { what: `the database refused: ${message}`, next: ERROR_CATALOGUE.database_forbidden.next };
  }
  const wrongAddress = state === '3D000' || state?.startsWith('28') === true;
  if (wrongAddress) return { what: `the database refused: ${message}`, next: 'Check DATABASE_URL.' };
  const code = state === undefined ? '' : ` (SQLSTATE ${state})`;
  return { what: `${message}${code}`, next: 'Try again; if it stays, report it with the command you ran.' };
}

/** The error of wrong settings, whose code is in the catalogue as well. */
function isCatalogued(error: unknown): error is Error & { code: keyof typeof ERROR_CATALOGUE } {
  return (
    error instanceof Error &&
    'code' in error &&
    typeof error.code === 'string' &&
    Object.hasOwn(ERROR_CATALOGUE, error.code)
  );
}

/** An AggregateError, as of a host with two addresses that both refuse, has a message only inside. */
function nestedMessage(error: unknown): string {
  const [first] = error instanceof AggregateError ? (error.errors as unknown[]) : [];
  return first instanceof Error ? first.message : String(error);
}
