import { isAlias, isMap, isScalar, isSeq, parseDocument, type Node } from 'yaml';
import { DEFINITION_LIMITS } from './effect-definition.ts';
import { findExcess } from './find-excess.ts';

/** What is wrong with a definition, and where: line and column count from 1, columns in UTF-16 units. */
export interface Problem {
  readonly line: number;
  readonly column: number;
  /** Says what was expected and what was there. */
  readonly message: string;
}

/** Collects problems while a document is read, so that all of them are reported at once. */
export class Findings {
  readonly #text: string;
  readonly #found: { offset: number; message: string }[] = [];

  constructor(text: string) {
    this.#text = text;
  }

  /** Adds a problem at a node, or at an offset of the source. */
  add(at: Node | number, message: string): void {
    this.#found.push({ offset: typeof at === 'number' ? at : (at.range?.[0] ?? 0), message });
  }

  /** In reading order, and no more than anyone reads. */
  get problems(): Problem[] {
    const first = this.#found.toSorted((a, b) => a.offset - b.offset).slice(0, DEFINITION_LIMITS.problems);
    return first.map(({ offset, message }) => {
      // A place between the two halves of a line end is the end of its line.
      const before = this.#text
        .slice(0, offset)
        .replace(/\r$/, '')
        .split(/\r\n|\n/);
      return { line: before.length, column: (before.at(-1)?.length ?? 0) + 1, message };
    });
  }
}

/** Reads one YAML 1.2 document, without merge keys, into nodes that know their place. Never throws. */
export function readYaml(source: string | Uint8Array): { root: Node | null; findings: Findings } {
  const bytes = typeof source === 'string' ? Buffer.byteLength(source) : source.byteLength;
  if (bytes > DEFINITION_LIMITS.bytes) {
    return refuse('', 0, `expected at most ${DEFINITION_LIMITS.bytes} bytes, got ${bytes}`);
  }
  const text = typeof source === 'string' ? source : Buffer.from(source).toString('utf8');
  const forbidden = FORBIDDEN.exec(text);
  if (forbidden !== null) {
    return refuse(
      text,
      forbidden.index,
      `expected printable text, got the character ${codePoint(forbidden[0])}`,
    );
  }
  if (typeof source !== 'string' && !Buffer.from(text).equals(source)) {
    return refuse(text, text.indexOf('\uFFFD'), 'expected UTF-8 text, got bytes that are not');
  }
  return parse(text);
}

/** Control characters other than tab and line ends, half characters, and a byte order mark. */
// oxlint-disable-next-line no-control-regex -- finding them is its purpose
const FORBIDDEN =
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u0084\u0086-\u009f\ufeff]|\r(?!\n)|\p{Surrogate}/u;

/** How text is read, by whoever reads it. */
export const YAML_1_2 = { version: '1.2', schema: 'core', merge: false, uniqueKeys: false } as const;

function parse(text: string): { root: Node | null; findings: Findings } {
  const findings = new Findings(text);
  try {
    const excess = findExcess(text);
    if (excess !== null) return refuse(text, excess.offset, excess.message);
    const document = parseDocument(text, { ...YAML_1_2, strict: true, prettyErrors: false });
    for (const fault of [...document.errors, ...document.warnings]) {
      const isSecondDocument = fault.code === 'MULTIPLE_DOCS';
      const what = isSecondDocument
        ? 'one document, got a second one'
        : `YAML 1.2, got: ${short(fault.message)}`;
      findings.add(Math.min(fault.pos[0], text.length), `expected ${what}`);
    }
    const directive = document.directives?.yaml.explicit === true ? /^%/m.exec(text) : null;
    if (directive !== null)
      findings.add(directive.index, 'expected no directive, got %YAML; definitions are YAML 1.2');
    return { root: findings.problems.length === 0 ? document.contents : null, findings };
  } catch (error) {
    findings.add(0, `expected YAML 1.2, got: ${short(String(error))}`);
    return { root: null, findings };
  }
}

function refuse(text: string, offset: number, message: string): { root: null; findings: Findings } {
  const findings = new Findings(text);
  findings.add(offset, message);
  return { root: null, findings };
}

/** What stands at a place, in words, for "expected …, got …". */
export function describe(node: Node | null | undefined): string {
  if (isMap(node)) return 'a mapping';
  if (isSeq(node)) return 'a list';
  if (isAlias(node))
    return `the alias *${short(node.source, 40)}; aliases are not supported, write the value out`;
  if (!isScalar(node) || node.value === null) return 'nothing';
  const { value } = node;
  if (typeof value === 'string') return quote(value);
  if (typeof value === 'number' || typeof value === 'boolean') return `the ${typeof value} ${String(value)}`;
  return 'a tagged value';
}

/** Text between quotes, on one line, cut to a length that a terminal shows. */
export function quote(text: string): string {
  return JSON.stringify(short(text, 60));
}

function short(text: string, unitsMax = 160): string {
  const line = text.toWellFormed().replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '\uFFFD');
  return line.length <= unitsMax ? line : `${line.slice(0, unitsMax - 1).toWellFormed()}…`;
}

function codePoint(unit: string): string {
  return `U+${(unit.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`;
}
