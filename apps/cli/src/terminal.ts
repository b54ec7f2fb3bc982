import { stripVTControlCharacters } from 'node:util';

/** Where a command reads its surroundings and writes its answer; a test gives its own. */
export interface Terminal {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdout: Output;
  readonly stderr: Output;
  /** Aborted when the person wants to stop watching. */
  readonly signal: AbortSignal;
}

export interface Output {
  write(chunk: string | Uint8Array): unknown;
  readonly isTTY?: boolean;
}

/**
 * Text that came from elsewhere, safe to show: escape sequences, control characters and direction overrides are gone,
 * so that it can neither move the cursor nor pass for something else. Line ends and tabs stay.
 */
export function printable(text: string): string {
  return stripVTControlCharacters(text)
    .replaceAll('\r\n', '\n')
    .replaceAll('\r', '\n')
    .replaceAll(/[^\P{Cc}\n\t]|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu, '');
}

/** Writes what came from elsewhere exactly as it is, unless a terminal would obey it. */
export function writeStored(output: Output, stored: Uint8Array): void {
  output.write(output.isTTY === true ? printable(Buffer.from(stored).toString('utf8')) : stored);
}

/** One line of it, for a place where a line break would be a lie as well. */
export function printableLine(text: string): string {
  return printable(text).replaceAll(/\s+/g, ' ').trim();
}

/** Rows under a heading, in columns as wide as their widest cell. */
export function table(heading: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [heading, ...rows].map((row) => row.map(printableLine));
  const widths = heading.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)));
  return lines
    .map(
      (line) =>
        `${line
          .map((cell, column) => cell.padEnd(widths[column] ?? 0))
          .join('  ')
          .trimEnd()}\n`,
    )
    .join('');
}
