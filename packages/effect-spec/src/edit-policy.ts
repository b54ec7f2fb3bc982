import { Document, isMap, parseDocument } from 'yaml';
import type { Clauses } from './push-policy.ts';
import { YAML_1_2 } from './read-yaml.ts';

/** What a rule is to say from now on; it keeps what is not named here. */
export type RuleChange = { readonly [K in keyof Clauses]?: Clauses[K] | undefined };

/**
 * The text of a `policy.yaml` after a change to the rule for a pattern, or without that rule; null: there was none.
 * Everything else stays as it is, comments included. Takes only what `parsePolicy` reads. Null if there is no rule to
 * take away.
 */
export function editPolicy(
  source: Uint8Array | null,
  pattern: string,
  change: RuleChange | 'unset',
): string | null {
  const document =
    source === null
      ? new Document({ rules: {} })
      : parseDocument(Buffer.from(source).toString('utf8'), YAML_1_2);
  const rule = ['rules', pattern];
  if (change === 'unset') {
    if (!document.deleteIn(rule)) return null;
  } else {
    const rules = document.get('rules');
    // An empty mapping can only be written on one line, and what comes into it would be as well.
    if (isMap(rules) && rules.items.length === 0) rules.flow = false;
    if (!document.hasIn(rule)) document.setIn(rule, document.createNode({}, { flow: true }));
    for (const [clause, value] of Object.entries(change)) {
      if (value !== undefined) document.setIn([...rule, clause], document.createNode(value, { flow: true }));
    }
  }
  return document.toString({ lineWidth: 0 });
}
