/**
 * Longest reason that is stored, in UTF-16 units, the mark of a cut included. In UTF-8 these are at most 6,000 bytes: a
 * completion takes 10,000.
 */
export const REASON_MAX = 2_000;

const CUT = ' … (cut)';

/**
 * Makes a text from outside (an error message, output of a command) fit to be stored and shown: control characters,
 * which could rewrite a terminal, become visible escapes; lone surrogates, which PostgreSQL refuses, become U+FFFD; what
 * is too long is cut. Never empty.
 */
export function cleanReason(text: string): string {
  // Cut before it is cleaned as well: an error message can be as large as what it complains about.
  const visible = beginning(text, REASON_MAX + 1)
    .toWellFormed()
    .replace(/[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu, (character) =>
      character === '\n' || character === '\t' ? character : escaped(character),
    )
    .trim();
  if (visible === '') return 'no reason given';
  if (visible.length <= REASON_MAX && text.length <= REASON_MAX) return visible;
  return beginning(visible, REASON_MAX - CUT.length) + CUT;
}

/** No more than `max` units of it, the last character whole. */
function beginning(text: string, max: number): string {
  return text.length <= max ? text : text.slice(0, max).replace(/[\uD800-\uDBFF]$/, '');
}

function escaped(character: string): string {
  return `\\u${character.codePointAt(0)!.toString(16).padStart(4, '0')}`;
}
