import fc from 'fast-check';
import { isCollection, parseDocument, type Node } from 'yaml';
import { expect, test } from 'vitest';
import { DEFINITION_LIMITS } from './effect-definition.ts';
import { findExcess } from './find-excess.ts';
import { parseDefinition } from './parse-definition.ts';

const { depth } = DEFINITION_LIMITS;

test.each([
  ['brackets', (n: number) => `on: ${'['.repeat(n - 1)}a${']'.repeat(n - 1)}\n`],
  ['braces', (n: number) => `on: ${'{a: '.repeat(n - 1)}b${'}'.repeat(n - 1)}\n`],
  ['dashes', (n: number) => `${'- '.repeat(n)}a\n`],
  ['question marks', (n: number) => `${'? '.repeat(n)}a\n`],
  ['indentation', (n: number) => Array.from({ length: n }, (_, at) => `${' '.repeat(at)}a:\n`).join('')],
])('%s are read 20 deep, and refused a thousand deep with the place where it is too much', (_, nest) => {
  expect(findExcess(nest(20))).toBeNull();
  for (const n of [depth + 2, 300, 1000]) {
    const text = nest(n);
    if (text.length > DEFINITION_LIMITS.bytes) continue;
    const excess = findExcess(text);
    expect(excess?.message).toBe('expected lists and mappings at most 50 deep inside one another, got more');
    expect(excess!.offset).toBeLessThan(nest(depth + 2).length);
  }
});

test('it is told with line and column', () => {
  const source = `run: make\non: ${'['.repeat(5000)}\n`;
  expect(parseDefinition(source)).toEqual({
    problems: [
      {
        line: 2,
        column: 4 + depth,
        message: 'expected lists and mappings at most 50 deep inside one another, got more',
      },
    ],
  });
});

test('brackets and dashes inside of text, and any number side by side, are not inside one another', () => {
  const many = Array.from({ length: 200 }, (_, n) => `  - [a, {b: ${n}}]\n`).join('');
  const shell = `${'[ '.repeat(200)}\n${'  - '.repeat(200)}`;
  for (const text of [
    `on:\n${many}run: make\n`,
    `run: |\n  ${shell}\n`,
    `run: "${'['.repeat(200)}"\n`,
    `run: a${'['.repeat(200)}\n`,
    `# ${'['.repeat(200)}\nrun: make\n`,
  ])
    expect(findExcess(text)).toBeNull();
});

test('no document that nests much deeper than allowed passes, however it is written', () => {
  // Each level a list or a mapping.
  const value = fc
    .array(fc.boolean(), { maxLength: 4 * depth, size: 'max' })
    .map((levels) => levels.reduce<unknown>((inner, isList) => (isList ? [inner] : { k: inner }), 'a'));
  const style = fc.record({
    flow: fc.boolean(),
    indentSeq: fc.boolean(),
    indent: fc.integer({ min: 1, max: 4 }),
  });
  fc.assert(
    fc.property(value, style, (node, { flow, indentSeq, indent }) => {
      const text = flow ? JSON.stringify(node) : write(node, indent, indentSeq);
      const deep = depthOf(parseDocument(text).contents as Node | null);
      // A list that is not further in than its key counts as one with it.
      if (deep > 2 * depth) expect(findExcess(text)).not.toBeNull();
      if (deep < depth / 2) expect(findExcess(text)).toBeNull();
    }),
  );
});

function depthOf(node: unknown): number {
  if (!isCollection(node)) return 0;
  return (
    1 +
    Math.max(
      0,
      ...node.items.map((item) =>
        depthOf('value' in (item as object) ? (item as { value: unknown }).value : item),
      ),
    )
  );
}

function write(node: unknown, indent: number, indentSeq: boolean, column = 0): string {
  const pad = ' '.repeat(column);
  if (Array.isArray(node)) return `${pad}- ${write(node[0], indent, indentSeq, column + 2).trimStart()}`;
  if (typeof node !== 'object' || node === null) return `${pad}${String(node)}\n`;
  const { k } = node as { k: unknown };
  if (typeof k === 'string') return `${pad}k: ${k}\n`;
  const below = Array.isArray(k) && !indentSeq ? column : column + indent;
  return `${pad}k:\n${write(k, indent, indentSeq, below)}`;
}
