import { inspect } from 'node:util';
import { cleanReason } from '@sluice/queue-core/dispatcher';

/** What was thrown, as a text that can be stored and shown; never empty. */
export function describeError(error: unknown): string {
  const message: unknown = error instanceof Error ? error.message : error;
  // Not String, which throws for an object without a prototype.
  const text = typeof message === 'string' ? message : inspect(message);
  return cleanReason(text === '' ? 'an error without a message' : text);
}
