import { isUtf8 } from 'node:buffer';

/** Most push options of one push: each is a line of its op record. */
export const PUSH_OPTIONS_MAX = 64;

/** Longest push option. */
export const PUSH_OPTION_BYTES_MAX = 4096;

/**
 * Why a push option cannot be recorded, the `index`th of its push from 0; null: it can. An op record has one line for
 * each, and they are shown on terminals.
 */
export function checkPushOption(option: Uint8Array, index: number): string | null {
  if (index >= PUSH_OPTIONS_MAX) return `expected at most ${PUSH_OPTIONS_MAX} push options, got more`;
  if (option.length > PUSH_OPTION_BYTES_MAX)
    return `expected push options of at most ${PUSH_OPTION_BYTES_MAX} bytes, got one of ${option.length}`;
  if (isUtf8(option) && !/\p{Cc}/u.test(Buffer.from(option).toString('utf8'))) return null;
  return 'expected push options in UTF-8, each on one line, got other bytes or a control character';
}
