import { printableLine } from './terminal.ts';

/** What the parser of command lines says of a value, and the same in the words of every other error. */
const REWORDED: readonly (readonly [RegExp, string])[] = [
  [/^option '([^']+)' argument '(.*)' is invalid\. Expected (.*)\.$/s, "$1: expected $3, got '$2'"],
  [
    /^option '([^']+)' argument '(.*)' is invalid\. Allowed choices are (.*)\.$/s,
    "$1: expected one of $3, got '$2'",
  ],
  [
    /^command-argument value '(.*)' is invalid for argument '([^']+)'\. Expected (.*)\.$/s,
    "<$2>: expected $3, got '$1'",
  ],
];

/** The lines for a command line that cannot be understood: what is wrong, and whose help to read. */
export function explainUsage(text: string, path: string): string {
  const told = text.replace(/^error: /, '').trim();
  const found = REWORDED.find(([pattern]) => pattern.test(told));
  const what = found === undefined ? told : told.replace(...found);
  return `sluice: ${printableLine(what)}\n  next: see ${path} --help\n`;
}
