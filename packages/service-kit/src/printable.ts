/**
 * Text that cannot move a cursor, recolour a terminal or reorder what a reader sees: control, format and bidirectional
 * characters become `\u{…}`.
 */
export function printable(value: string): string {
  return value.replace(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu,
    (character) => `\\u{${character.codePointAt(0)!.toString(16)}}`,
  );
}
