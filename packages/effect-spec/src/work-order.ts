import { DEFINITION_LIMITS, type Command, type EffectDefinition } from './effect-definition.ts';
import { isEffectName, isOid, resultRef } from './effect-name.ts';
import type { TriggerEdit } from './match-effect.ts';
import { isVariableName } from './variable-name.ts';

/**
 * What an effect has to do, as it was when the push was accepted: everything is pinned by OID, so it means the same an
 * hour later. It names no executor, no credential and no number of attempts: a payload cannot give itself privileges.
 */
export interface WorkOrder {
  readonly version: 1;
  readonly repo: string;
  readonly objectFormat: 'sha1' | 'sha256';
  /** The push that caused it: its id, and who signed it as far as that was proven. */
  readonly push: { readonly id: string; readonly signer: string | null };
  /** Name of the effect and OID of the definition's commit. */
  readonly effect: { readonly name: string; readonly definition: string };
  /** The ref edit; `old` null: created, `new` null: deleted. A tag's `new` is the tag object. */
  readonly trigger: { readonly ref: string; readonly old: string | null; readonly new: string | null };
  /** The commit to check out, tags peeled, and its tree. Of a deletion: what the ref named before. */
  readonly source: { readonly commit: string; readonly tree: string };
  readonly command: Command;
  readonly env: Readonly<Record<string, string>>;
  readonly image: string | null;
  readonly timeoutMs: number;
  readonly network: boolean;
  readonly resultRef: string;
  /** 0 for a push by a person; one more than the effect whose result caused it. */
  readonly hops: number;
}

/** Effects that effects caused: a chain longer than this is stopped. */
export const HOPS_MAX = 4;

/** Longest encoded work order: a definition of 64 KiB fits, however its text has to be escaped. */
const WORK_ORDER_BYTES_MAX = 512 * 1024;

/** What the pusher knows when a ref edit matched. */
export interface WorkOrderFacts {
  readonly repo: string;
  readonly push: WorkOrder['push'];
  readonly effect: WorkOrder['effect'];
  readonly edit: TriggerEdit;
  readonly source: WorkOrder['source'];
  readonly hops: number;
}

/** The work order for an edit that matched `definition`. */
export function buildWorkOrder(definition: EffectDefinition, facts: WorkOrderFacts): WorkOrder {
  return {
    version: 1,
    repo: facts.repo,
    objectFormat: facts.source.commit.length === 64 ? 'sha256' : 'sha1',
    push: facts.push,
    effect: facts.effect,
    trigger: { ref: facts.edit.name, old: facts.edit.oldOid, new: facts.edit.newOid },
    source: facts.source,
    command: definition.command,
    env: definition.env,
    image: definition.image,
    timeoutMs: definition.timeoutMs,
    network: definition.network,
    resultRef: resultRef(facts.effect.name, facts.source.commit),
    hops: facts.hops,
  };
}

/** The text stored as an effect's payload. Throws a TypeError naming the field if the order is not a valid one. */
export function encodeWorkOrder(order: WorkOrder): string {
  const text = JSON.stringify(order);
  const decoded = decodeWorkOrder(text);
  if ('problem' in decoded) throw new TypeError(decoded.problem);
  return text;
}

export type DecodedWorkOrder = { readonly order: WorkOrder } | { readonly problem: string };

/** Reads a payload back; never throws. The problem says which field, what was expected and what was there. */
export function decodeWorkOrder(text: string): DecodedWorkOrder {
  if (Buffer.byteLength(text) > WORK_ORDER_BYTES_MAX) {
    return {
      problem: `work order: expected at most ${WORK_ORDER_BYTES_MAX} bytes, got ${Buffer.byteLength(text)}`,
    };
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { problem: `work order: expected JSON, got ${show(text)}` };
  }
  const version = isRecord(value) ? value['version'] : undefined;
  if (typeof version === 'number' && version !== 1) {
    return {
      problem: `work order: expected version 1, got ${version}; it needs a newer sluice than this one`,
    };
  }
  const problem = isWorkOrder.problem(value, '');
  return problem === undefined ? { order: value as WorkOrder } : { problem: `work order: ${problem}` };
}

interface Check {
  problem(value: unknown, path: string): string | undefined;
}

const isWorkOrder: Check = {
  problem: (value, path) => shape.problem(value, path) ?? agreement(value as WorkOrder),
};

function check(expected: string, accepts: (value: unknown) => boolean): Check {
  return {
    problem: (value, path) =>
      accepts(value) ? undefined : `${path}: expected ${expected}, got ${show(value)}`,
  };
}

function record(fields: Readonly<Record<string, Check>>): Check {
  return {
    problem: (value, path) => {
      const at = (key: string) => (path === '' ? key : `${path}.${key}`);
      if (!isRecord(value)) return `${path === '' ? 'it' : path}: expected an object, got ${show(value)}`;
      for (const key of Object.keys(value)) {
        if (!Object.hasOwn(fields, key)) return `${at(show(key))}: expected no such field`;
      }
      for (const [key, field] of Object.entries(fields)) {
        const found = field.problem(Object.hasOwn(value, key) ? value[key] : undefined, at(key));
        if (found !== undefined) return found;
      }
      return undefined;
    },
  };
}

const isText = (value: unknown, bytes: number): value is string =>
  typeof value === 'string' &&
  Buffer.byteLength(value) <= bytes &&
  !value.includes('\0') &&
  value.isWellFormed();
const text = (bytes: number) =>
  check(`text of at most ${bytes} bytes without NUL`, (value) => isText(value, bytes));
const oid = check('an OID', (value) => typeof value === 'string' && isOid(value));
const flag = check('true or false', (value) => typeof value === 'boolean');
const whole = (min: number, max: number) =>
  check(
    `a whole number from ${min} to ${max}`,
    (v) => Number.isInteger(v) && (v as number) >= min && (v as number) <= max,
  );
const nullable = (inner: Check): Check => ({
  problem: (v, path) => (v === null ? undefined : inner.problem(v, path)),
});
const ref = check(
  'a ref below refs/',
  (value) => isText(value, 1024) && /^refs\/./.test(value) && !/\p{Cc}/u.test(value),
);

const env: Check = {
  problem: (value, path) => {
    if (!isRecord(value)) return `${path}: expected an object, got ${show(value)}`;
    const entries = Object.entries(value);
    if (entries.length > DEFINITION_LIMITS.env)
      return `${path}: expected at most ${DEFINITION_LIMITS.env} variables`;
    for (const [name, content] of entries) {
      if (!isVariableName(name)) return `${path}: expected variable names, got ${show(name)}`;
      const found = text(DEFINITION_LIMITS.envValueBytes).problem(content, `${path}.${name}`);
      if (found !== undefined) return found;
    }
    return undefined;
  },
};

const argv = check(
  `1 to ${DEFINITION_LIMITS.argv} texts of at most ${DEFINITION_LIMITS.argumentBytes} bytes`,
  (value) =>
    Array.isArray(value) &&
    value.length >= 1 &&
    value.length <= DEFINITION_LIMITS.argv &&
    value[0] !== '' &&
    value.every((word) => isText(word, DEFINITION_LIMITS.argumentBytes)),
);
const command: Check = {
  problem: (value, path) =>
    (isRecord(value) && 'argv' in value
      ? record({ argv })
      : record({ run: text(DEFINITION_LIMITS.runBytes) })
    ).problem(value, path),
};

const shape = record({
  version: check('version 1', (value) => value === 1),
  repo: check(
    'a repository name',
    (value) => typeof value === 'string' && /^[A-Za-z0-9._/@:+-]{1,200}$/.test(value),
  ),
  objectFormat: check('sha1 or sha256', (value) => value === 'sha1' || value === 'sha256'),
  push: record({ id: oid, signer: nullable(text(1024)) }),
  effect: record({
    name: check('an effect name', (v) => typeof v === 'string' && isEffectName(v)),
    definition: oid,
  }),
  trigger: record({ ref, old: nullable(oid), new: nullable(oid) }),
  source: record({ commit: oid, tree: oid }),
  command,
  env,
  image: nullable(text(DEFINITION_LIMITS.imageBytes)),
  timeoutMs: whole(1, DEFINITION_LIMITS.timeoutMs),
  network: flag,
  resultRef: ref,
  hops: whole(0, HOPS_MAX),
});

/** What the fields must say together. */
function agreement(order: WorkOrder): string | undefined {
  const length = order.objectFormat === 'sha1' ? 40 : 64;
  const { push, effect, trigger, source } = order;
  for (const id of [push.id, effect.definition, trigger.old, trigger.new, source.commit, source.tree]) {
    if (id !== null && id.length !== length)
      return `objectFormat: expected ${order.objectFormat} OIDs, got ${id}`;
  }
  if (trigger.old === null && trigger.new === null)
    return 'trigger: expected an old or a new OID, got neither';
  const expected = resultRef(effect.name, source.commit);
  return order.resultRef === expected
    ? undefined
    : `resultRef: expected ${expected}, got ${show(order.resultRef)}`;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function show(value: unknown): string {
  if (value === undefined) return 'nothing';
  const full = JSON.stringify(value);
  return full.length <= 60 ? full : `${full.slice(0, 57)}...`;
}
