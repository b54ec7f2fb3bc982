import type { Node } from 'yaml';
import {
  DEFINITION_DEFAULTS,
  DEFINITION_LIMITS,
  type Command,
  type Dedup,
  type EffectDefinition,
} from './effect-definition.ts';
import { readFlag, readList, readMapping, readText, readWhole, type Field } from './read-fields.ts';
import { readTrigger } from './read-trigger.ts';
import { describe, quote, readYaml, type Findings, type Problem } from './read-yaml.ts';
import { isVariableName } from './variable-name.ts';

export type ParsedDefinition =
  { readonly definition: EffectDefinition } | { readonly problems: readonly Problem[] };

const KEYS = [
  'on',
  'run',
  'argv',
  'env',
  'image',
  'timeout',
  'network',
  'concurrency',
  'priority',
  'maxAttempts',
  'dedup',
] as const;

/**
 * Reads the text of an `effect.yaml`. Never throws: whatever is wrong comes back as problems with line, column, what
 * was expected and what was there, all of them at once and at most 20.
 *
 * ```yaml
 * on: [refs/heads/*, '!refs/heads/wip/*']
 * run: make test
 * timeout: 10m
 * ```
 */
export function parseDefinition(source: string | Uint8Array): ParsedDefinition {
  const { root, findings } = readYaml(source);
  const definition = findings.problems.length > 0 ? undefined : readDefinition(root, findings);
  const { problems } = findings;
  if (definition === undefined || problems.length > 0) return { problems };
  return { definition };
}

function readDefinition(root: Node | null, findings: Findings): EffectDefinition | undefined {
  if (root === null) {
    findings.add(0, 'expected a mapping with "on" and "run", got nothing');
    return undefined;
  }
  const fields = readMapping({ value: root, place: root }, 'a mapping with "on" and "run"', KEYS, findings);
  if (fields === undefined) return undefined;
  const optional = <T>(key: (typeof KEYS)[number], read: (field: Field) => T | undefined, absent: T): T => {
    const field = fields.get(key);
    return field === undefined ? absent : (read(field) ?? absent);
  };
  const on = fields.get('on');
  if (on === undefined)
    findings.add(root, 'expected "on" with ref patterns such as refs/heads/*, got no such key');
  return {
    on: (on && readTrigger(on, findings)) ?? { refs: [], deletes: false, meta: false },
    command: readCommand(root, fields, findings) ?? { run: '' },
    env: optional('env', (field) => readEnv(field, findings), {}),
    image: optional('image', (field) => readImage(field, findings), null),
    timeoutMs: optional('timeout', (field) => readTimeout(field, findings), DEFINITION_DEFAULTS.timeoutMs),
    network: optional('network', (field) => readFlag(field, findings), false),
    concurrency: optional('concurrency', (field) => readConcurrency(field, findings), null),
    priority: optional(
      'priority',
      (field) => readWhole(field, -DEFINITION_LIMITS.priority, DEFINITION_LIMITS.priority, findings),
      0,
    ),
    maxAttempts: optional(
      'maxAttempts',
      (field) => readWhole(field, 1, DEFINITION_LIMITS.maxAttempts, findings),
      DEFINITION_DEFAULTS.maxAttempts,
    ),
    dedup: optional('dedup', (field) => readDedup(field, findings), 'ref'),
  };
}

function readCommand(
  root: Node,
  fields: ReadonlyMap<string, Field>,
  findings: Findings,
): Command | undefined {
  const run = fields.get('run');
  const argv = fields.get('argv');
  if (run !== undefined && argv !== undefined) {
    findings.add(argv.key, 'expected either "run" or "argv", got both');
    return undefined;
  }
  if (run !== undefined) {
    const text = readText(
      run.value,
      run.place,
      'shell text',
      { bytesMax: DEFINITION_LIMITS.runBytes },
      findings,
    );
    if (text?.trim() === '') findings.add(run.place, 'expected shell text, got only white space');
    return text === undefined ? undefined : { run: text };
  }
  if (argv === undefined) {
    findings.add(
      root,
      'expected "run" with shell text or "argv" with a program and its arguments, got neither',
    );
    return undefined;
  }
  const items = readList(argv, 'a list with a program and its arguments', findings);
  if (items === undefined) return undefined;
  if (items.length === 0 || items.length > DEFINITION_LIMITS.argv) {
    findings.add(argv.place, `expected 1 to ${DEFINITION_LIMITS.argv} arguments, got ${items.length}`);
    return undefined;
  }
  const words = items.map((item, index) => {
    const bounds = { bytesMin: index === 0 ? 1 : 0, bytesMax: DEFINITION_LIMITS.argumentBytes };
    return readText(item, item, index === 0 ? 'a program' : 'an argument', bounds, findings);
  });
  return { argv: words.filter((word) => word !== undefined) };
}

function readEnv(field: Field, findings: Findings): Record<string, string> | undefined {
  const what = 'a mapping of variable names to text';
  const fields = readMapping(field, what, 'any', findings);
  if (fields === undefined) return undefined;
  if (fields.size > DEFINITION_LIMITS.env) {
    findings.add(field.place, `expected at most ${DEFINITION_LIMITS.env} variables, got ${fields.size}`);
    return undefined;
  }
  const entries: [string, string][] = [];
  for (const [name, { key, value, place }] of fields) {
    if (!isVariableName(name)) findings.add(key, `expected ${variableRule(name)}, got ${quote(name)}`);
    const bounds = { bytesMin: 0, bytesMax: DEFINITION_LIMITS.envValueBytes };
    const text = readText(value, place, 'text', bounds, findings);
    if (text !== undefined) entries.push([name, text]);
  }
  // Not assignment: that would lose a variable called __proto__.
  return Object.fromEntries(entries);
}

function variableRule(name: string): string {
  if (name === '<<') return 'a variable name and no merge key';
  return /^SLUICE_/i.test(name)
    ? 'a variable name that does not start with SLUICE_'
    : `a variable name of letters, digits and _, at most ${DEFINITION_LIMITS.envNameBytes}`;
}

function readImage(field: Field, findings: Findings): string | undefined {
  const bounds = { bytesMax: DEFINITION_LIMITS.imageBytes };
  const image = readText(field.value, field.place, 'an image name', bounds, findings);
  if (image === undefined || /^[A-Za-z0-9][A-Za-z0-9._:/@+-]*$/.test(image)) return image;
  findings.add(field.place, `expected an image name such as docker.io/library/node:24, got ${quote(image)}`);
  return undefined;
}

const UNIT_MS = { h: 3_600_000, m: 60_000, s: 1000 } as const;

function readTimeout(field: Field, findings: Findings): number | undefined {
  const what = 'a duration such as "30s", "10m" or "1h30m"';
  const text = readText(field.value, field.place, what, { bytesMax: 40 }, findings);
  if (text === undefined) return undefined;
  const parts = /^(?:(?<h>\d{1,6})h)?(?:(?<m>\d{1,6})m)?(?:(?<s>\d{1,6})s)?$/.exec(text)?.groups;
  const ms = (['h', 'm', 's'] as const).reduce(
    (sum, unit) => sum + Number(parts?.[unit] ?? 0) * UNIT_MS[unit],
    0,
  );
  if (ms > 0 && ms <= DEFINITION_LIMITS.timeoutMs) return ms;
  findings.add(field.place, `expected ${what}, at most 24h, got ${quote(text)}`);
  return undefined;
}

function readConcurrency(field: Field, findings: Findings): EffectDefinition['concurrency'] | undefined {
  const what = 'a mapping with "group"';
  const fields = readMapping(field, what, ['group', 'supersede'], findings);
  if (fields === undefined) return undefined;
  const group = fields.get('group');
  const supersede = fields.get('supersede');
  const isSuperseding = supersede === undefined ? undefined : readFlag(supersede, findings);
  if (group === undefined) {
    findings.add(field.place, 'expected "group" with a name, got no such key');
    return undefined;
  }
  const bounds = { bytesMax: DEFINITION_LIMITS.groupBytes };
  const name = readText(group.value, group.place, 'a group name', bounds, findings);
  const stray = name?.replaceAll('{ref}', '').match(/\{[^}]*\}?|\}/);
  if (stray) findings.add(group.place, `expected {ref} as the only placeholder, got ${quote(stray[0])}`);
  return name === undefined ? undefined : { group: name, supersede: isSuperseding ?? true };
}

function readDedup(field: Field, findings: Findings): Dedup | undefined {
  const what = 'ref, commit or push';
  const text = readText(field.value, field.place, what, { bytesMax: 40 }, findings);
  if (text === 'ref' || text === 'commit' || text === 'push') return text;
  if (text !== undefined) findings.add(field.place, `expected ${what}, got ${describe(field.value)}`);
  return undefined;
}
