import { isSeq } from 'yaml';
import { DEFINITION_LIMITS, type EffectDefinition } from './effect-definition.ts';
import { META_PREFIX } from './effect-name.ts';
import { readFlag, readList, readMapping, readText, type Field } from './read-fields.ts';
import { quote, type Findings } from './read-yaml.ts';
import { strayInPattern } from './ref-pattern.ts';

/** Reads `on`: a list of ref patterns, or a mapping with them and what else counts. */
export function readTrigger(field: Field, findings: Findings): EffectDefinition['on'] | undefined {
  if (isSeq(field.value)) return { refs: readPatterns(field, false, findings), deletes: false, meta: false };
  const what = 'a list of ref patterns or a mapping with "refs"';
  const fields = readMapping(field, what, ['refs', 'deletes', 'meta'], findings);
  if (fields === undefined) return undefined;
  const deletes = fields.get('deletes');
  const meta = fields.get('meta');
  const refs = fields.get('refs');
  if (refs === undefined) findings.add(field.place, 'expected "refs" with ref patterns, got no such key');
  const hasMeta = meta !== undefined && readFlag(meta, findings) === true;
  return {
    refs: refs === undefined ? [] : readPatterns(refs, hasMeta, findings),
    deletes: deletes !== undefined && readFlag(deletes, findings) === true,
    meta: hasMeta,
  };
}

function readPatterns(field: Field, hasMeta: boolean, findings: Findings): string[] {
  const items = readList(field, 'a list of ref patterns', findings) ?? [];
  if (items.length > DEFINITION_LIMITS.patterns) {
    findings.add(field.place, `expected at most ${DEFINITION_LIMITS.patterns} patterns, got ${items.length}`);
    return [];
  }
  const bounds = { bytesMax: DEFINITION_LIMITS.patternBytes };
  const patterns = items.flatMap((item) => {
    const pattern = readText(item, item, 'a ref pattern', bounds, findings);
    const problem = pattern === undefined ? undefined : patternProblem(pattern, hasMeta);
    if (problem !== undefined) findings.add(item, problem);
    return pattern === undefined ? [] : [pattern];
  });
  if (patterns.length === items.length && patterns.every((pattern) => pattern.startsWith('!'))) {
    const got = items.length === 0 ? 'an empty list' : 'only patterns that exclude';
    findings.add(field.place, `expected a ref pattern that includes, got ${got}`);
  }
  return patterns;
}

function patternProblem(pattern: string, hasMeta: boolean): string | undefined {
  const ref = pattern.startsWith('!') ? pattern.slice(1) : pattern;
  const got = `got ${quote(pattern)}`;
  if (!ref.startsWith('refs/')) return `expected a full ref pattern such as refs/heads/*, ${got}`;
  const stray = strayInPattern(ref);
  if (stray !== undefined) return `expected a pattern that a ref name can match, ${got} with ${quote(stray)}`;
  if (!hasMeta && ref === pattern && ref.startsWith(META_PREFIX)) {
    return `expected "meta: true" beside "refs" for refs below ${META_PREFIX}, ${got} without it`;
  }
  return undefined;
}
