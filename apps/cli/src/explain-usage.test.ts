import { expect, test } from 'vitest';
import { explainUsage } from './explain-usage.ts';

test.each([
  [
    "error: option '--limit <n>' argument '0' is invalid. Expected a whole number from 1 to 9.\n",
    "--limit <n>: expected a whole number from 1 to 9, got '0'",
  ],
  [
    "error: option '--role <role>' argument 'owner' is invalid. Allowed choices are admin, writer.\n",
    "--role <role>: expected one of admin, writer, got 'owner'",
  ],
  [
    "error: command-argument value 'it's' is invalid for argument 'token'. Expected a whole number.\n",
    "<token>: expected a whole number, got 'it's'",
  ],
  [
    "error: option '-x <n>' argument 'a\u001b[2J\nb' is invalid. Expected one word.\n",
    "-x <n>: expected one word, got 'a b'",
  ],
  ["error: unknown command 'foo'\n(Did you mean log?)\n", "unknown command 'foo' (Did you mean log?)"],
])('%j is told as an error of our own', (text, what) => {
  expect(explainUsage(text, 'sluice x')).toBe(`sluice: ${what}\n  next: see sluice x --help\n`);
});
