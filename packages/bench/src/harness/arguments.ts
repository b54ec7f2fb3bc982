/** What the command line asks for. */
export interface Arguments {
  suite: string;
  isQuick: boolean;
  asJson: boolean;
  /** Exit with 0 although a target was missed. */
  neverFail: boolean;
}

const FLAGS = { '--quick': 'isQuick', '--json': 'asJson', '--no-fail': 'neverFail' } as const;

/** Reads the command line, or says what is wrong with it. */
export function parseArguments(
  words: readonly string[],
  suites: readonly string[],
): { arguments: Arguments } | { problem: string } {
  const parsed = { isQuick: false, asJson: false, neverFail: false };
  const names: string[] = [];
  for (const word of words) {
    const flag = Object.hasOwn(FLAGS, word) ? FLAGS[word as keyof typeof FLAGS] : undefined;
    if (flag !== undefined) parsed[flag] = true;
    else if (word.startsWith('-'))
      return { problem: `expected one of ${Object.keys(FLAGS).join(', ')}, got ${JSON.stringify(word)}.` };
    else names.push(word);
  }
  const [suite] = names;
  if (suite === undefined || names.length > 1)
    return { problem: `expected one suite, got ${names.length === 0 ? 'none' : names.join(', ')}.` };
  if (!suites.includes(suite))
    return { problem: `expected one of ${suites.join(', ')}, got ${JSON.stringify(suite)}.` };
  return { arguments: { suite, ...parsed } };
}
