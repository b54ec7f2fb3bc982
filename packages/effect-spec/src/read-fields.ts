import { isMap, isScalar, isSeq, type Node, type Scalar } from 'yaml';
import { describe, quote, type Findings } from './read-yaml.ts';

/** A key's value with the node to blame when it is wrong. */
export interface Field {
  readonly key: Scalar;
  readonly value: Node | null;
  /** The value's node, or the key's where nothing stands behind the colon. */
  readonly place: Node;
}

/** The fields of a mapping by key; a repeated key is a problem, and so is one that is not in `known`. */
export function readMapping(
  { value: node, place }: Pick<Field, 'value' | 'place'>,
  what: string,
  known: readonly string[] | 'any',
  findings: Findings,
): Map<string, Field> | undefined {
  if (!isMap<Node, Node | null>(node)) {
    findings.add(place, `expected ${what}, got ${describe(node)}`);
    return undefined;
  }
  const fields = new Map<string, Field>();
  for (const { key, value } of node.items) {
    if (!isScalar(key) || typeof key.value !== 'string') {
      findings.add(key, `expected a text key, got ${describe(key)}`);
    } else if (fields.has(key.value)) {
      findings.add(key, `expected each key once, got ${quote(key.value)} again`);
    } else {
      fields.set(key.value, { key, value, place: isEmpty(value) ? key : value });
      if (known !== 'any' && !known.includes(key.value)) findings.add(key, unknownKey(key.value, known));
    }
  }
  return fields;
}

/** The items of a list. */
export function readList(field: Field, what: string, findings: Findings): Node[] | undefined {
  if (isSeq<Node>(field.value)) return field.value.items;
  findings.add(field.place, `expected ${what}, got ${describe(field.value)}`);
  return undefined;
}

/** Text; `what` says what it should be. NUL and half characters, which only escapes can bring in, are refused. */
export function readText(
  node: Node | null,
  place: Node,
  what: string,
  bounds: { bytesMin?: number; bytesMax: number },
  findings: Findings,
): string | undefined {
  const value = isScalar(node) ? node.value : undefined;
  if (typeof value !== 'string') {
    const hint = typeof value === 'number' || typeof value === 'boolean' ? '; put it in quotes' : '';
    findings.add(place, `expected ${what}, got ${describe(node)}${hint}`);
    return undefined;
  }
  const bytes = Buffer.byteLength(value);
  if (value.includes('\0') || !value.isWellFormed()) {
    findings.add(place, `expected ${what} without NUL and half characters, got ${quote(value)}`);
  } else if (bytes > bounds.bytesMax) {
    findings.add(place, `expected ${what} of at most ${bounds.bytesMax} bytes, got ${bytes}`);
  } else if (bytes < (bounds.bytesMin ?? 1)) {
    findings.add(place, `expected ${what}, got empty text`);
  } else {
    return value;
  }
  return undefined;
}

export function readFlag(field: Field, findings: Findings): boolean | undefined {
  if (isScalar(field.value) && typeof field.value.value === 'boolean') return field.value.value;
  findings.add(field.place, `expected true or false, got ${describe(field.value)}`);
  return undefined;
}

export function readWhole(field: Field, min: number, max: number, findings: Findings): number | undefined {
  const value = isScalar(field.value) ? field.value.value : undefined;
  if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) return value;
  findings.add(field.place, `expected a whole number from ${min} to ${max}, got ${describe(field.value)}`);
  return undefined;
}

function isEmpty(node: Node | null): node is null {
  return node === null || node.range === undefined || node.range?.[0] === node.range?.[1];
}

function unknownKey(key: string, known: readonly string[]): string {
  if (key === '<<') return 'expected a key, got "<<"; merge keys are not supported, write the values out';
  const near = closest(key, known);
  const offer = near === undefined ? `one of ${known.join(', ')}` : `${near}`;
  return `expected ${offer}, got the unknown key ${quote(key)}`;
}

/** The word most like `key`, if it is at most a third of it away. */
function closest(key: string, words: readonly string[]): string | undefined {
  if (key.length > 30) return undefined;
  const ranked = words
    .map((word) => ({ word, distance: editDistance(key.toLowerCase(), word.toLowerCase()) }))
    .toSorted((a, b) => a.distance - b.distance);
  const [best] = ranked;
  return best !== undefined && best.distance <= Math.max(1, Math.floor(best.word.length / 3))
    ? best.word
    : undefined;
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const replaced = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
