import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { concurrencyGroup } from './concurrency-group.ts';
import { dedupKey } from './dedup-key.ts';
import type { EffectDefinition } from './effect-definition.ts';
import { isEffectName, resultRef } from './effect-name.ts';
import { environment } from './environment.ts';
import { parseDefinition } from './parse-definition.ts';
import {
  buildWorkOrder,
  decodeWorkOrder,
  encodeWorkOrder,
  HOPS_MAX,
  type WorkOrder,
  type WorkOrderFacts,
} from './work-order.ts';

const [OLD, NEW, DEF, TREE, PUSH] = ['a', 'b', 'c', 'd', 'e'].map((digit) => digit.repeat(40)) as [
  string,
  string,
  string,
  string,
  string,
];

function definition(more = ''): EffectDefinition {
  const parsed = parseDefinition(`on: [refs/**]\nrun: make\n${more}`);
  if ('problems' in parsed) throw new Error(parsed.problems[0]?.message);
  return parsed.definition;
}

const FACTS: WorkOrderFacts = {
  repo: 'acme/api',
  push: { id: PUSH, signer: null },
  effect: { name: 'build', definition: DEF },
  edit: { name: 'refs/heads/main', oldOid: OLD, newOid: NEW },
  source: { commit: NEW, tree: TREE },
  hops: 0,
};

function order(facts: Partial<WorkOrderFacts> = {}, more = ''): WorkOrder {
  return buildWorkOrder(definition(more), { ...FACTS, ...facts });
}

describe('the work order', () => {
  it('comes back as it went in', () => {
    const text = fc.string({ unit: 'grapheme', maxLength: 50 }).filter((value) => !value.includes('\0'));
    fc.assert(
      fc.property(
        text.filter((value) => value !== ''),
        fc.dictionary(fc.constantFrom('A', 'B_1', '_'), text),
        (run, env) => {
          const sent: WorkOrder = { ...order(), command: { run }, env };
          expect(decodeWorkOrder(encodeWorkOrder(sent))).toEqual({ order: sent });
        },
      ),
    );
    const deletion = order({
      edit: { name: 'refs/tags/v1', oldOid: OLD, newOid: null },
      source: { commit: OLD, tree: TREE },
    });
    expect(decodeWorkOrder(encodeWorkOrder(deletion))).toEqual({ order: deletion });
  });

  it('holds no executor, no credential and no number of attempts', () => {
    expect(Object.keys(order({}, 'maxAttempts: 9\npriority: 3\n'))).toEqual([
      'version',
      'repo',
      'objectFormat',
      'push',
      'effect',
      'trigger',
      'source',
      'command',
      'env',
      'image',
      'timeoutMs',
      'network',
      'resultRef',
      'hops',
    ]);
  });

  const wrong: [field: string, change: (draft: Record<string, unknown>) => void, problem: string][] = [
    [
      'version',
      (o) => (o['version'] = 2),
      'expected version 1, got 2; it needs a newer sluice than this one',
    ],
    ['no version', (o) => delete o['version'], 'version: expected version 1, got nothing'],
    ['repo', (o) => (o['repo'] = 'a b'), 'repo: expected a repository name, got "a b"'],
    ['executor', (o) => (o['executor'] = 'host'), '"executor": expected no such field'],
    ['push', (o) => (o['push'] = null), 'push: expected an object, got null'],
    [
      'definition',
      (o) => (o['effect'] = { name: 'x', definition: 'HEAD' }),
      'effect.definition: expected an OID, got "HEAD"',
    ],
    [
      'effect name',
      (o) => (o['effect'] = { name: '../x', definition: DEF }),
      'effect.name: expected an effect name, got "../x"',
    ],
    [
      'ref',
      (o) => (o['trigger'] = { ref: 'HEAD', old: null, new: NEW }),
      'trigger.ref: expected a ref below refs/, got "HEAD"',
    ],
    [
      'edit',
      (o) => (o['trigger'] = { ref: 'refs/a', old: null, new: null }),
      'trigger: expected an old or a new OID, got neither',
    ],
    ['command', (o) => (o['command'] = { run: 'x', argv: ['y'] }), 'command."run": expected no such field'],
    [
      'argv',
      (o) => (o['command'] = { argv: [] }),
      'command.argv: expected 1 to 256 texts of at most 8192 bytes, got []',
    ],
    ['env', (o) => (o['env'] = { SLUICE_REPO: 'x' }), 'env: expected variable names, got "SLUICE_REPO"'],
    [
      'env value',
      (o) => (o['env'] = { A: 1 }),
      'env.A: expected text of at most 8192 bytes without NUL, got 1',
    ],
    ['timeout', (o) => (o['timeoutMs'] = 0), 'timeoutMs: expected a whole number from 1 to 86400000, got 0'],
    ['network', (o) => (o['network'] = 'no'), 'network: expected true or false, got "no"'],
    [
      'hops',
      (o) => (o['hops'] = HOPS_MAX + 1),
      `hops: expected a whole number from 0 to ${HOPS_MAX}, got ${HOPS_MAX + 1}`,
    ],
    [
      'mixed hashes',
      (o) => (o['objectFormat'] = 'sha256'),
      `objectFormat: expected sha256 OIDs, got ${PUSH}`,
    ],
    [
      'result ref',
      (o) => (o['resultRef'] = 'refs/heads/main'),
      `resultRef: expected refs/meta/results/build/${NEW}, got "refs/heads/main"`,
    ],
  ];
  it.each(wrong)('refuses a wrong %s', (_field, change, problem) => {
    const draft = structuredClone(order()) as unknown as Record<string, unknown>;
    change(draft);
    expect(decodeWorkOrder(JSON.stringify(draft))).toEqual({ problem: `work order: ${problem}` });
  });

  it('never throws on text it did not write', () => {
    expect(decodeWorkOrder('{')).toEqual({ problem: 'work order: expected JSON, got "{"' });
    expect(decodeWorkOrder('[]')).toEqual({ problem: 'work order: it: expected an object, got []' });
    expect(decodeWorkOrder(`"${'x'.repeat(600_000)}"`)).toHaveProperty('problem');
    fc.assert(fc.property(fc.json(), (text) => 'problem' in decodeWorkOrder(text)));
  });

  it('is not encoded when it is wrong', () => {
    expect(() => encodeWorkOrder({ ...order(), hops: -1 })).toThrow(/hops: expected a whole number/);
  });

  it('shows a command its facts as variables, and ours win over the definition', () => {
    expect(environment({ ...order(), env: { CI: 'true', SLUICE_REPO: 'other' } })).toEqual({
      CI: 'true',
      SLUICE_REPO: 'acme/api',
      SLUICE_EFFECT: 'build',
      SLUICE_DEFINITION: DEF,
      SLUICE_REF: 'refs/heads/main',
      SLUICE_OLD: OLD,
      SLUICE_NEW: NEW,
      SLUICE_COMMIT: NEW,
      SLUICE_TREE: TREE,
      SLUICE_PUSH: PUSH,
      SLUICE_SIGNER: '',
      SLUICE_RESULT_REF: `refs/meta/results/build/${NEW}`,
    });
  });
});

describe('dedupKey', () => {
  const key = (facts: Partial<WorkOrderFacts> = {}, dedup: 'ref' | 'commit' | 'push' = 'ref') =>
    dedupKey(order(facts), { dedup });
  const otherRef = { edit: { ...FACTS.edit, name: 'refs/heads/other' } };
  const otherPush = { push: { id: OLD, signer: null } };

  it('is the hash of the documented array', () => {
    // printf '[1,"acme/api","build","ccc…","refs/heads/main","bbb…"]' | sha256sum
    expect(key()).toBe('07084e72bb361300e2246ca8dbf982222fb645ead63f9c5f4ed9b263306f51f5');
  });

  it('differs by repo, effect, definition, ref and new OID, and by nothing else', () => {
    const keys = [
      key(),
      key({ repo: 'acme/web' }),
      key({ effect: { name: 'test', definition: DEF } }),
      key({ effect: { name: 'build', definition: OLD } }),
      key(otherRef),
      key({ edit: { ...FACTS.edit, newOid: TREE } }),
    ];
    expect(new Set(keys).size).toBe(keys.length);
    expect(key(otherPush)).toBe(key());
    expect(key({ edit: { ...FACTS.edit, oldOid: null } })).toBe(key());
  });

  it('by commit runs once, whichever ref names it; by push once a push', () => {
    expect(key(otherRef, 'commit')).toBe(key({}, 'commit'));
    expect(key({ source: { commit: OLD, tree: TREE } }, 'commit')).not.toBe(key({}, 'commit'));
    expect(key(otherPush, 'push')).not.toBe(key({}, 'push'));
    expect(key(otherRef, 'push')).not.toBe(key({}, 'push'));
    expect(new Set([key(), key({}, 'commit'), key({}, 'push')]).size).toBe(3);
  });

  it('tells two deletions of one ref apart', () => {
    const edit = { ...FACTS.edit, newOid: null };
    expect(key({ edit })).not.toBe(key({ edit, ...otherPush }));
  });
});

describe('concurrencyGroup', () => {
  const group = (text: string, ref: string) =>
    concurrencyGroup(definition(`concurrency: { group: '${text}' }\n`), ref);

  it('fills in the ref, literally', () => {
    expect(group('deploy {ref}', 'refs/heads/$&')).toBe('deploy refs/heads/$&');
    expect(concurrencyGroup(definition(), 'refs/heads/main')).toBeUndefined();
  });

  it('hashes what is longer than 200 bytes', () => {
    const long = group('{ref}', `refs/heads/${'é'.repeat(100)}`);
    expect(long).toMatch(/^sha256:[0-9a-f]{64}$/);
    expect(group('{ref}', `refs/heads/${'é'.repeat(101)}`)).not.toBe(long);
  });
});

describe('effect names', () => {
  it.each(['build', 'a', 'Build_2.x-y', 'a'.repeat(100)])('takes %s', (name) => {
    expect(isEffectName(name)).toBe(true);
  });

  it.each([
    '',
    '.',
    '..',
    '.x',
    '-x',
    'a/b',
    'a..b',
    'a.',
    'x.lock',
    'x.LOCK',
    'a b',
    'a\n',
    'é',
    'a'.repeat(101),
  ])('refuses %j', (name) => {
    expect(isEffectName(name)).toBe(false);
    expect(() => resultRef(name, NEW)).toThrow(/expected an effect name/);
  });

  it('builds result refs from full OIDs only', () => {
    expect(resultRef('build', NEW)).toBe(`refs/meta/results/build/${NEW}`);
    expect(() => resultRef('build', 'abc')).toThrow(/expected a commit OID/);
  });
});
