import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { DEFINITION_LIMITS } from './effect-definition.ts';
import { parseDefinition } from './parse-definition.ts';

const GOOD = 'on: [refs/heads/*]\nrun: make\n';

/** What malformed and well-formed documents are made of. */
const PIECES = [
  'on: ',
  'run: ',
  'refs/heads/*',
  '[',
  ']',
  '{',
  '}',
  '\n',
  '  ',
  '- ',
  '&a ',
  '*a',
  '!!str ',
  '"',
  "'",
  '|\n',
  '<<: ',
  'env:\n',
  'A: b',
  'timeout: 1m\n',
  ': ',
  '#',
  '---\n',
  '%YAML 1.1\n',
  '\r\n',
  '\t',
  ',',
  '? ',
  '\\0',
  'é',
  '\ud83d',
];

function problemsOf(source: string | Uint8Array): string[] {
  const parsed = parseDefinition(source);
  return 'problems' in parsed ? parsed.problems.map((p) => `${p.line}:${p.column} ${p.message}`) : [];
}

describe('parseDefinition', () => {
  it('fills in every default', () => {
    expect(parseDefinition(GOOD)).toEqual({
      definition: {
        on: { refs: ['refs/heads/*'], deletes: false, meta: false },
        command: { run: 'make' },
        env: {},
        image: null,
        timeoutMs: 600_000,
        network: false,
        concurrency: null,
        priority: 0,
        maxAttempts: 3,
        dedup: 'ref',
      },
    });
  });

  it('reads every key', () => {
    const source = `# what it is for
on:
  refs: ['refs/heads/**', '!refs/heads/wip/*', refs/meta/notes]
  deletes: true
  meta: true
argv: [sh, -c, 'echo "$SLUICE_REF"', '']
env: { CI: 'true', EMPTY: '', __proto__: x }
image: docker.io/library/node:24@sha256:${'a'.repeat(64)}
timeout: 1h30m
network: true
concurrency: { group: 'deploy {ref}', supersede: false }
priority: -5
maxAttempts: 1
dedup: push
`;
    const parsed = parseDefinition(Buffer.from(source));
    expect(parsed).toMatchObject({
      definition: {
        on: { refs: ['refs/heads/**', '!refs/heads/wip/*', 'refs/meta/notes'], deletes: true, meta: true },
        command: { argv: ['sh', '-c', 'echo "$SLUICE_REF"', ''] },
        timeoutMs: 5_400_000,
        network: true,
        concurrency: { group: 'deploy {ref}', supersede: false },
        priority: -5,
        maxAttempts: 1,
        dedup: 'push',
      },
    });
    const entries = 'definition' in parsed ? Object.entries(parsed.definition.env) : [];
    expect(entries).toEqual([
      ['CI', 'true'],
      ['EMPTY', ''],
      ['__proto__', 'x'],
    ]);
  });

  it('supersedes within a group unless told not to', () => {
    expect(parseDefinition(`${GOOD}concurrency: { group: x }\n`)).toMatchObject({
      definition: { concurrency: { group: 'x', supersede: true } },
    });
  });

  it('takes YAML 1.2: yes and on are text, a block keeps its lines', () => {
    expect(parseDefinition('on: [refs/heads/on]\nrun: |\n  yes\n  no\nenv: { A: yes }\n')).toMatchObject({
      definition: { command: { run: 'yes\nno\n' }, env: { A: 'yes' } },
    });
  });

  const NUL = String.fromCharCode(0);
  const malformed: [name: string, source: string | Uint8Array, problems: string[]][] = [
    ['empty', '', ['1:1 expected a mapping with "on" and "run", got nothing']],
    ['only a comment', '# hello\n', ['1:1 expected a mapping with "on" and "run", got nothing']],
    ['a list', '- a\n', ['1:1 expected a mapping with "on" and "run", got a list']],
    ['text', 'hello', ['1:1 expected a mapping with "on" and "run", got "hello"']],
    [
      'an empty mapping',
      '{}',
      [
        '1:1 expected "on" with ref patterns such as refs/heads/*, got no such key',
        '1:1 expected "run" with shell text or "argv" with a program and its arguments, got neither',
      ],
    ],
    ['a mistyped key', `${GOOD}timout: 5m\n`, ['3:1 expected timeout, got the unknown key "timout"']],
    [
      'a key in another case',
      `${GOOD}maxattempts: 5\n`,
      ['3:1 expected maxAttempts, got the unknown key "maxattempts"'],
    ],
    [
      'an unknown key',
      `${GOOD}executor: host\n`,
      [
        '3:1 expected one of on, run, argv, env, image, timeout, network, concurrency, priority, maxAttempts, dedup, got the unknown key "executor"',
      ],
    ],
    ['a repeated key', `${GOOD}run: other\n`, ['3:1 expected each key once, got "run" again']],
    ['a repeated variable', `${GOOD}env:\n  A: x\n  A: y\n`, ['5:3 expected each key once, got "A" again']],
    ['both commands', `${GOOD}argv: [make]\n`, ['3:1 expected either "run" or "argv", got both']],
    ['run without text', 'on: [refs/heads/*]\nrun:\n', ['2:1 expected shell text, got nothing']],
    [
      'run with white space',
      'on: [refs/heads/*]\nrun: "  "\n',
      ['2:6 expected shell text, got only white space'],
    ],
    [
      'run with a number',
      'on: [refs/heads/*]\nrun: 5\n',
      ['2:6 expected shell text, got the number 5; put it in quotes'],
    ],
    ['run with a list', 'on: [refs/heads/*]\nrun: [a]\n', ['2:6 expected shell text, got a list']],
    [
      'argv with text',
      'on: [refs/heads/*]\nargv: make\n',
      ['2:7 expected a list with a program and its arguments, got "make"'],
    ],
    ['an empty argv', 'on: [refs/heads/*]\nargv: []\n', ['2:7 expected 1 to 256 arguments, got 0']],
    ['an empty program', 'on: [refs/heads/*]\nargv: [""]\n', ['2:8 expected a program, got empty text']],
    [
      'a number as argument',
      'on: [refs/heads/*]\nargv: [sleep, 5]\n',
      ['2:15 expected an argument, got the number 5; put it in quotes'],
    ],
    [
      'on with text',
      'on: refs/heads/*\nrun: x\n',
      ['1:5 expected a list of ref patterns or a mapping with "refs", got "refs/heads/*"'],
    ],
    [
      'on with nothing',
      'on:\nrun: x\n',
      ['1:1 expected a list of ref patterns or a mapping with "refs", got nothing'],
    ],
    ['no patterns', 'on: []\nrun: x\n', ['1:5 expected a ref pattern that includes, got an empty list']],
    [
      'only exclusions',
      'on: ["!refs/heads/x"]\nrun: x\n',
      ['1:5 expected a ref pattern that includes, got only patterns that exclude'],
    ],
    ['no refs', 'on: {deletes: true}\nrun: x\n', ['1:5 expected "refs" with ref patterns, got no such key']],
    [
      'a mistyped key below on',
      'on: {refs: [refs/*], delete: true}\nrun: x\n',
      ['1:22 expected deletes, got the unknown key "delete"'],
    ],
    [
      'text for a flag',
      'on: {refs: [refs/*], deletes: yes}\nrun: x\n',
      ['1:31 expected true or false, got "yes"'],
    ],
    [
      'a short pattern',
      'on: [main]\nrun: x\n',
      ['1:6 expected a full ref pattern such as refs/heads/*, got "main"'],
    ],
    [
      'an alias for a pattern',
      'on:\n- *main\nrun: x\n',
      ['2:3 expected a ref pattern, got the alias *main; aliases are not supported, write the value out'],
    ],
    [
      'a question mark',
      'on: ["refs/heads/v?"]\nrun: x\n',
      ['1:6 expected a pattern that a ref name can match, got "refs/heads/v?" with "?"'],
    ],
    [
      'a folder',
      'on: [refs/heads/]\nrun: x\n',
      ['1:6 expected a pattern that a ref name can match, got "refs/heads/" with "/"'],
    ],
    [
      'a meta ref without opting in',
      'on: [refs/heads/*, refs/meta/effects/*]\nrun: x\n',
      [
        '1:20 expected "meta: true" beside "refs" for refs below refs/meta/, got "refs/meta/effects/*" without it',
      ],
    ],
    [
      'a variable of ours',
      `${GOOD}env: { SLUICE_REF: x }\n`,
      ['3:8 expected a variable name that does not start with SLUICE_, got "SLUICE_REF"'],
    ],
    [
      'a bad variable name',
      `${GOOD}env: { "A=B": x }\n`,
      ['3:8 expected a variable name of letters, digits and _, at most 128, got "A=B"'],
    ],
    [
      'a number as variable',
      `${GOOD}env: { A: 1 }\n`,
      ['3:11 expected text, got the number 1; put it in quotes'],
    ],
    [
      'a flag as variable',
      `${GOOD}env:\n  A: true\n`,
      ['4:6 expected text, got the boolean true; put it in quotes'],
    ],
    ['a variable without value', `${GOOD}env:\n  A:\n`, ['4:3 expected text, got nothing']],
    ['env with nothing', `${GOOD}env:\n`, ['3:1 expected a mapping of variable names to text, got nothing']],
    ['a number as key', `${GOOD}env: {1: a}\n`, ['3:7 expected a text key, got the number 1']],
    ['a list as key', `${GOOD}? [a]\n: b\n`, ['3:3 expected a text key, got a list']],
    [
      'a merge key',
      `${GOOD}<<: { run: y }\n`,
      ['3:1 expected a key, got "<<"; merge keys are not supported, write the values out'],
    ],
    [
      'a merge key below env',
      `${GOOD}env: { <<: y }\n`,
      ['3:8 expected a variable name and no merge key, got "<<"'],
    ],
    [
      'an image with spaces',
      `${GOOD}image: a b\n`,
      ['3:8 expected an image name such as docker.io/library/node:24, got "a b"'],
    ],
    [
      'an image that is an option',
      `${GOOD}image: --privileged\n`,
      ['3:8 expected an image name such as docker.io/library/node:24, got "--privileged"'],
    ],
    [
      'a timeout without unit',
      `${GOOD}timeout: 30\n`,
      ['3:10 expected a duration such as "30s", "10m" or "1h30m", got the number 30; put it in quotes'],
    ],
    [
      'a timeout of nothing',
      `${GOOD}timeout: 0s\n`,
      ['3:10 expected a duration such as "30s", "10m" or "1h30m", at most 24h, got "0s"'],
    ],
    [
      'a timeout of a week',
      `${GOOD}timeout: 168h\n`,
      ['3:10 expected a duration such as "30s", "10m" or "1h30m", at most 24h, got "168h"'],
    ],
    [
      'a priority with a fraction',
      `${GOOD}priority: 1.5\n`,
      ['3:11 expected a whole number from -1000 to 1000, got the number 1.5'],
    ],
    [
      'no attempts',
      `${GOOD}maxAttempts: 0\n`,
      ['3:14 expected a whole number from 1 to 100, got the number 0'],
    ],
    [
      'an infinite number of attempts',
      `${GOOD}maxAttempts: .inf\n`,
      ['3:14 expected a whole number from 1 to 100, got the number Infinity'],
    ],
    ['an unknown dedup', `${GOOD}dedup: tree\n`, ['3:8 expected ref, commit or push, got "tree"']],
    ['a group alone', `${GOOD}concurrency: deploy\n`, ['3:14 expected a mapping with "group", got "deploy"']],
    [
      'concurrency without group',
      `${GOOD}concurrency: { supersede: true }\n`,
      ['3:14 expected "group" with a name, got no such key'],
    ],
    [
      'an unknown placeholder',
      `${GOOD}concurrency: { group: 'a {branch}' }\n`,
      ['3:23 expected {ref} as the only placeholder, got "{branch}"'],
    ],
    ['network with text', `${GOOD}network: none\n`, ['3:10 expected true or false, got "none"']],
    ['a second document', `${GOOD}---\n${GOOD}`, ['3:1 expected one document, got a second one']],
    [
      'an older YAML',
      `%YAML 1.1\n---\n${GOOD}`,
      ['1:1 expected no directive, got %YAML; definitions are YAML 1.2'],
    ],
    [
      'an unknown tag',
      `${GOOD}image: !include x\n`,
      ['3:8 expected YAML 1.2, got: Unresolved tag: !include'],
    ],
    ['a binary tag', `${GOOD}image: !!binary aGk=\n`, ['3:17 expected an image name, got a tagged value']],
    ['an open quote', `${GOOD}image: "x\n`, ['4:1 expected YAML 1.2, got: Missing closing "quote']],
    ['a tab', `${GOOD}env:\n\tA: x\n`, ['4:1 expected YAML 1.2, got: Tabs are not allowed as indentation']],
    ['NUL', `${GOOD}image: a${NUL}b\n`, ['3:9 expected printable text, got the character U+0000']],
    [
      'NUL by escape',
      `${GOOD}image: "a\\0b"\n`,
      ['3:8 expected an image name without NUL and half characters, got "a\uFFFDb"'],
    ],
    ['half a character', `${GOOD}image: \ud83d\n`, ['3:8 expected printable text, got the character U+D83D']],
    [
      'half a character by escape',
      `${GOOD}image: "\\ud83d"\n`,
      ['3:8 expected an image name without NUL and half characters, got "\uFFFD"'],
    ],
    ['a byte order mark', `\ufeff${GOOD}`, ['1:1 expected printable text, got the character U+FEFF']],
    [
      'a lone carriage return',
      'on: [refs/*]\rrun: x\n',
      ['1:13 expected printable text, got the character U+000D'],
    ],
    [
      'an escape sequence',
      `${GOOD}image: \u001b[31m\n`,
      ['3:8 expected printable text, got the character U+001B'],
    ],
    [
      'bytes that are not UTF-8',
      Buffer.concat([Buffer.from(GOOD), Buffer.from([0xff])]),
      ['3:1 expected UTF-8 text, got bytes that are not'],
    ],
    [
      'a windows file with a mistake',
      'on: [refs/*]\r\nrun: x\r\nfoo: y\r\n'.replace('foo', 'runs'),
      ['3:1 expected run, got the unknown key "runs"'],
    ],
    [
      'an open list before a windows line end',
      '[[}\r\n',
      [
        '1:3 expected YAML 1.2, got: Flow sequence in block collection must be sufficiently indented and end with a ]',
        '1:4 expected YAML 1.2, got: Flow sequence must end with a ]',
      ],
    ],
    [
      'too much',
      `${GOOD}#${'x'.repeat(DEFINITION_LIMITS.bytes)}`,
      [`1:1 expected at most 65536 bytes, got ${DEFINITION_LIMITS.bytes + GOOD.length + 1}`],
    ],
    [
      'too many patterns',
      `on: [${'refs/*,'.repeat(65)}]\nrun: x\n`,
      ['1:5 expected at most 64 patterns, got 65'],
    ],
    [
      'a long pattern',
      `on: [refs/${'x'.repeat(252)}]\nrun: x\n`,
      ['1:6 expected a ref pattern of at most 256 bytes, got 257'],
    ],
    [
      'a long key',
      `${GOOD}${'k'.repeat(500)}: x\n`,
      [
        `3:1 expected one of on, run, argv, env, image, timeout, network, concurrency, priority, maxAttempts, dedup, got the unknown key "${'k'.repeat(59)}…"`,
      ],
    ],
  ];

  it.each(malformed)('refuses %s', (_name, source, problems) => {
    expect(problemsOf(source)).toEqual(problems);
  });

  it('reports everything that is wrong at once, in reading order, at most 20', () => {
    expect(problemsOf('on: [main]\nrun: 5\ntimeout: x\n').map((line) => line.split(' ')[0])).toEqual([
      '1:6',
      '2:6',
      '3:10',
    ]);
    const many = Array.from({ length: 50 }, (_, index) => `k${index}: 1`).join('\n');
    expect(problemsOf(`${GOOD}${many}\n`)).toHaveLength(20);
  });

  it('does not expand aliases: a bomb is refused where it is used', () => {
    const bomb = [
      'a: &a [x, x]',
      ...'bcdefghij'.split('').map((k, i) => `${k}: &${k} [*${'abcdefghi'[i]}, *${'abcdefghi'[i]}]`),
    ];
    const problems = problemsOf(`on: *j\nrun: x\n${bomb.join('\n')}\n`);
    expect(problems[0]).toBe(
      '1:5 expected a list of ref patterns or a mapping with "refs", got the alias *j; aliases are not supported, write the value out',
    );
  });

  const many = '1:1 expected at most 10000 words, signs and gaps, got more';
  const deep = 'expected lists and mappings at most 50 deep inside one another, got more';
  it.each([
    ['[', `1:51 ${deep}`],
    ['[]', many],
    ['- ', `1:101 ${deep}`],
    ['a:\n', many],
    ['#\n', many],
    ['!a ', many],
    ['%A\n', many],
  ])('refuses what is short and would keep the parser busy: %j again and again', (piece, problem) => {
    const text = piece.repeat(Math.floor(DEFINITION_LIMITS.bytes / piece.length));
    expect(problemsOf(text)).toEqual([problem]);
  });

  it('takes a definition that says everything as often as it may', () => {
    const { patterns, argv, env } = DEFINITION_LIMITS;
    const times = (count: number, line: (index: number) => string): string =>
      Array.from({ length: count }, (_, index) => `${line(index)}  # why\n`).join('');
    const text = `on:\n${times(patterns, (index) => `  - refs/heads/${index}`)}argv:\n${times(argv, (index) => `  - "${index}"`)}env:\n${times(env, (index) => `  NAME_${index}: "${index}"`)}`;
    expect(problemsOf(text)).toEqual([]);
  });

  it.each(['[', '{', '- ', '? ', 'a: ', '!', '&a ', '"\\', '\n', '\t', '*', '|'])(
    'survives %j without end',
    (piece) => {
      expect(
        problemsOf(piece.repeat(Math.floor(DEFINITION_LIMITS.bytes / piece.length))).length,
      ).toBeGreaterThan(0);
    },
  );

  it('never throws, and places every problem inside the text', () => {
    const piece = fc.constantFrom(...PIECES);
    const source = fc.oneof(
      fc.array(piece, { maxLength: 30 }).map((pieces) => pieces.join('')),
      fc.string({ unit: 'binary' }),
    );
    fc.assert(
      fc.property(source, (text) => {
        const parsed = parseDefinition(text);
        if (!('problems' in parsed)) return;
        expect(parsed.problems.length).toBeGreaterThan(0);
        const lines = text.split(/\r\n|\n/);
        for (const { line, column, message } of parsed.problems) {
          expect(line).toBeLessThanOrEqual(lines.length);
          expect(column).toBeLessThanOrEqual((lines[line - 1] ?? '').length + 1);
          expect(message).toMatch(/^expected /);
          expect(message).not.toMatch(/\p{Cc}/u);
        }
      }),
      { numRuns: 1000 },
    );
  });

  it('reads bytes and text alike', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (text) => {
        expect(parseDefinition(Buffer.from(text))).toEqual(parseDefinition(text));
      }),
    );
  });
});
