import type { Problem } from './read-yaml.ts';

/** The first problems of a file on one line, each with its place, and how many more there are. */
export function describeProblems(file: string, problems: readonly Problem[], shownMax = 1): string {
  const shown = problems
    .slice(0, shownMax)
    .map(({ line, column, message }) => `${file}:${line}:${column}: ${message}`);
  const more = problems.length - shown.length;
  return shown.join('; ') + (more > 0 ? `; and ${more} more` : '');
}
