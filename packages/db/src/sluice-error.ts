/**
 * Every error with a code that a caller or an operator may meet: what happened, and what to do next.
 * `docs/errors.md` lists the same codes; a test keeps the two equal.
 */
export const ERROR_CATALOGUE = {
  invalid_argument: {
    summary: 'A value passed to a function is not acceptable.',
    next: 'Correct the value the message names.',
  },
  invalid_settings: {
    summary: 'One or more settings are wrong or missing.',
    next: 'Correct each setting the message lists; docs/settings.md has an example of each.',
  },
  queue_full: {
    summary: 'The repository already has as many waiting effects as max_queued allows.',
    next: 'Wait for the queue to drain, or raise it: sluice repo set <repo> --max-queued <n>.',
  },
  wrong_isolation: {
    summary: "The caller's transaction works on a snapshot that may be older than a lock it has to respect.",
    next: 'Open the transaction at the isolation level READ COMMITTED.',
  },
  dispatcher_gone: {
    summary:
      'A dispatcher claims under an id that is registered no more: it was declared dead, or unregistered.',
    next: 'Register again and claim under the new id; a running dispatcher does so by itself.',
  },
  driver_unsupported: {
    summary: "The driver under the caller's Kysely sends arrays or buffers in another form than pg does.",
    next: 'Give the queue a Kysely instance over the pg driver; createDatabase makes one.',
  },
  database_unavailable: {
    summary: 'The database did not answer in time or refused the connection.',
    next: 'Check that PostgreSQL runs and that DATABASE_URL is right, then try again; nothing was half done.',
  },
  database_read_only: {
    summary: 'The database accepts no writes: it is a standby or in read-only mode.',
    next: 'Point DATABASE_URL at the primary server.',
  },
  database_unsuitable: {
    summary: 'The server is older than PostgreSQL 15, or the database has another encoding than UTF8.',
    next: 'Point DATABASE_URL at a database made with: create database … encoding UTF8.',
  },
  database_forbidden: {
    summary: "The role in DATABASE_URL has no right to Sluice's schema.",
    next: 'Use one role for all programs: the one that runs sluice migrate and owns the schema.',
  },
  server_key_unusable: {
    summary: "The file with the server's signing key cannot be used.",
    next: 'Make it readable by its owner only, or remove it, so that a new key is made.',
  },
  git_unusable: {
    summary: 'There is no git on the PATH, or it is too old.',
    next: 'Install git 2.34 or newer and start again.',
  },
  ssh_keygen_unusable: {
    summary: 'ssh-keygen, which checks signatures, is not on the PATH, too old, or gave no answer in time.',
    next: 'Install OpenSSH 8.2 or newer and try again; if it is installed, the machine was too busy.',
  },
  schema_out_of_date: {
    summary: 'The database lacks migrations that this version needs, or has newer ones than it knows.',
    next: 'Run sluice migrate, or migrate in a program of your own, with the newest version in use; then start again.',
  },
} as const;

export type ErrorCode = keyof typeof ERROR_CATALOGUE;

/** An error with a code of the catalogue. The message says what was expected, what was got, and the next step. */
export class SluiceError extends Error {
  readonly code: ErrorCode;
  /** What was expected and what was got: the message without the next step. */
  readonly what: string;
  /** What to do; the catalogue's, unless there is something more exact to say. */
  readonly next: string;

  constructor(code: ErrorCode, what: string, options: ErrorOptions & { next?: string } = {}) {
    const next = options.next ?? ERROR_CATALOGUE[code].next;
    super(`${what} ${next}`, 'cause' in options ? { cause: options.cause } : undefined);
    this.name = 'SluiceError';
    this.code = code;
    this.what = what;
    this.next = next;
  }
}
