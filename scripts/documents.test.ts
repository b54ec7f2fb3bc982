import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { ERROR_CATALOGUE } from '@sluice/db';
import { expect, test } from 'vitest';
import { createPolicy, parseDefinition, parsePolicy } from '../packages/effect-spec/src/index.ts';

const ROOT = join(import.meta.dirname, '..');

const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');

/** Cells of every table row below a heading (or of the whole page), without back-ticks and escapes. */
function rows(markdown: string, heading?: string): string[][] {
  const part =
    heading === undefined ? markdown : (markdown.split(`\n## ${heading}\n`)[1]?.split('\n## ')[0] ?? '');
  return part
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim().replaceAll(/^`|`$|\\/g, '')),
    );
}

test('docs/errors.md lists the catalogue', () => {
  const documented = rows(read('docs/errors.md'));
  const catalogue = Object.entries(ERROR_CATALOGUE).map(([code, { summary, next }]) => [code, summary, next]);
  expect(documented).toEqual(catalogue.toSorted(([a = ''], [b = '']) => (a < b ? -1 : 1)));
});

test.each([
  ['Pusher', 'apps/pusher/src/settings.ts', 5],
  ['Dispatcher', 'apps/dispatcher/src/settings.ts', 5],
  ['Hook', 'apps/pusher/src/adopted/hook-settings.ts', 1],
])('docs/settings.md lists the settings of the %s, in order', (heading, source, fewest) => {
  const declared = [...read(source).matchAll(/name: '([A-Z_]+)',.*?example: '([^']*)'/gs)].map(
    ([, name, example]) => [name, example],
  );
  const documented = rows(read('docs/settings.md'), heading).map(([name, , example]) => [name, example]);
  expect(declared.length).toBeGreaterThan(fewest);
  expect(documented).toEqual(declared);
});

test('every link between documents leads somewhere', () => {
  const documents = globSync('{*.md,docs/**/*.md,packages/*/*.md,apps/*/*.md,migrations/*.md}', {
    cwd: ROOT,
    exclude: (name) => name === 'node_modules',
  });
  expect(documents).toContain('README.md');
  const broken = documents.flatMap((document) =>
    [...read(document).matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)]
      .map(([, target = '']) => target)
      .filter((target) => !/^[a-z]+:/.test(target) && !existsSync(join(ROOT, dirname(document), target)))
      .map((target) => `${document}: ${target}`),
  );
  expect(broken).toEqual([]);
});

test('every row of the crash matrix has a test', () => {
  const matrix = read('docs/crash-matrix.md')
    .split('\n')
    .filter((line) => /^\| \d+ /.test(line));
  expect(matrix.length).toBeGreaterThan(20);
  expect(matrix.filter((line) => !/\]\([^)]+\.test\.ts\)/.test(line))).toEqual([]);
});

test('every definition in docs/effects.md is one', () => {
  const examples = [...read('docs/effects.md').matchAll(/```yaml\n([\s\S]*?)```/g)].map((match) => match[1]!);
  expect(examples.length).toBeGreaterThan(2);
  for (const example of examples) expect(parseDefinition(example)).toHaveProperty('definition');
});

test('docs/policy.md shows a policy, and the rules that hold everywhere', () => {
  const page = read('docs/policy.md');
  const [example] = [...page.matchAll(/```yaml\n([\s\S]*?)```/g)].map((match) => match[1]!);
  expect(parsePolicy(example ?? '')).toHaveProperty('policy');
  const holding = createPolicy([]).rules.map(({ pattern, roles, force, delete: deletion, attestation }) => [
    pattern,
    roles?.join(', ') ?? '',
    String(force ?? ''),
    String(deletion ?? ''),
    attestation ?? '',
  ]);
  // A folder's own name has the rule of what is below it.
  const isFolder = ([pattern]: string[]): boolean => holding.some(([other]) => other === `${pattern}/**`);
  const named = holding.filter((row) => row[0] === 'refs/meta/config' || !isFolder(row));
  const documented = rows(page, 'What holds everywhere');
  expect(documented).toEqual(named.filter(([pattern]) => pattern !== 'refs/meta/config/**'));
});

test('the files that ARCHITECTURE.md names exist', () => {
  const named = [...read('ARCHITECTURE.md').matchAll(/`((?:apps|packages)\/[\w./-]+\.ts)`/g)].map(
    (match) => match[1]!,
  );
  expect(named.length).toBeGreaterThan(10);
  expect(named.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
});
