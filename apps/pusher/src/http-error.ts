/** Ends a request with a status and a sentence for the client. */
export class HttpError extends Error {
  override readonly name = 'HttpError';
  readonly status: number;
  readonly headers: Record<string, string>;

  constructor(
    status: number,
    message: string,
    options: ErrorOptions & { headers?: Record<string, string> } = {},
  ) {
    super(message, options);
    this.status = status;
    this.headers = options.headers ?? {};
  }
}

/** For what passes by itself: git shows the status, and the client may simply try again. */
export function unavailable(message: string, cause?: unknown): HttpError {
  return new HttpError(503, `${message}. Try again in a moment`, { cause, headers: { 'retry-after': '5' } });
}
