import { inspect } from 'node:util';

/** Longest reason or error that is stored, in UTF-16 units; the log has the rest. */
const TEXT_MAX = 4_000;

/** Text of unknown origin in a form that Postgres can store: no NUL, no lone surrogate, cut to a sensible length. */
export function storableText(text: string): string {
  const cut = text.length > TEXT_MAX ? `${text.slice(0, TEXT_MAX)}…` : text;
  return cut.replaceAll('\0', '\uFFFD').toWellFormed();
}

/** What was thrown, as one storable text; never empty. */
export function describeError(error: unknown): string {
  const message: unknown = error instanceof Error ? error.message : error;
  // Not String, which throws for an object without a prototype.
  const text = typeof message === 'string' ? message : inspect(message);
  return storableText(text === '' ? 'an error without a message' : text);
}
