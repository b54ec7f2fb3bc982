/**
 * Text that cannot move a cursor, recolour a terminal or reorder what a reader sees: control, format and bidirectional
 * characters become `\u{…}`. Line feeds and tabs stay when `keepLines` is set.
 */
export function printable(value: string, { keepLines = false }: { keepLines?: boolean } = {}): string {
  return value.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu, (character) =>
    keepLines && (character === '\n' || character === '\t')
      ? character
      : `\\u{${character.codePointAt(0)!.toString(16)}}`,
  );
}
