import { expect, test } from 'vitest';
import { parseDefinition } from './parse-definition.ts';
import { planEffects, planInTurns, type PlanInput } from './plan-effects.ts';

const [commit, tree, definitionOid] = ['1', '2', '3'].map((digit) => digit.repeat(40)) as [
  string,
  string,
  string,
];

function defined(name: string, source: string): PlanInput['definitions'][number] {
  const parsed = parseDefinition(source);
  if ('problems' in parsed) throw new Error(JSON.stringify(parsed.problems));
  return { name, oid: definitionOid, definition: parsed.definition };
}

const CI = defined('ci', 'on: [refs/heads/*]\nrun: make\n');

function inputOf(refs: readonly string[], input: Partial<PlanInput> = {}): PlanInput {
  return {
    repoId: 'acme/api',
    pushId: '4'.repeat(40),
    signer: null,
    applied: refs.map((name) => ({ name, oldOid: null, newOid: commit })),
    definitions: [CI],
    facts: new Map([[commit, { commit, tree }]]),
    hops: 0,
    effectsMax: 1000,
    skipReason: null,
    ...input,
  };
}

function plan(...given: Parameters<typeof inputOf>) {
  return planEffects(inputOf(...given));
}

test('a push of definitions and other refs of our own says nothing about effects that they do not cause', () => {
  const meta = defined('meta', 'on:\n  refs: [refs/meta/notes/*]\n  meta: true\nrun: make\n');
  const refs = [
    'refs/meta/effects/ci',
    'refs/meta/effects/meta',
    'refs/meta/results/ci/x',
    'refs/meta/other',
  ];
  expect(plan(refs, { definitions: [CI, meta] })).toMatchObject({
    enqueue: [],
    unmatched: [],
    unmatchedCount: 0,
  });
});

test('what does not match is named with the reason, the first few pairs, and counted beyond them', () => {
  const why = 'matches none of refs/heads/*';
  expect(plan(['refs/heads/a', 'refs/tags/a', 'refs/tags/b'])).toMatchObject({
    enqueue: [{ ref: 'refs/heads/a' }],
    unmatched: [
      { ref: 'refs/tags/a', name: 'ci', why },
      { ref: 'refs/tags/b', name: 'ci', why },
    ],
    unmatchedCount: 2,
  });
  const many = plan(Array.from({ length: 20 }, (_, n) => `refs/tags/t${n}`));
  expect([many.unmatched.length, many.unmatched[7]?.ref, many.unmatchedCount]).toEqual([
    8,
    'refs/tags/t7',
    20,
  ]);
});

test('what a limit or the push itself stops is recorded up to the limit, and counted beyond it', () => {
  const refs = Array.from({ length: 10 }, (_, n) => `refs/heads/b${n}`);
  const limited = plan(refs, { effectsMax: 3 });
  expect([limited.enqueue.length, limited.skip.length, limited.skipCount]).toEqual([3, 3, 7]);
  const asked = plan(refs, { effectsMax: 3, skipReason: 'the push asked for it' });
  expect([asked.enqueue.length, asked.skip.length, asked.skipCount]).toEqual([0, 3, 10]);
});

test('so is what would take too much memory, and a smaller effect does not slip in behind it', () => {
  const env = Array.from({ length: 7 }, (_, n) => `  V${n}: ${'x'.repeat(8000)}\n`).join('');
  const large = defined('large', `on: [refs/heads/**]\nrun: make\nenv:\n${env}`);
  const refs = Array.from({ length: 900 }, (_, n) => `refs/heads/b${n}`);
  const { enqueue, skip, skipCount } = plan(refs, { definitions: [large, CI] });
  const bytes = [enqueue.map(({ effect }) => effect), skip].map((list) =>
    list.reduce((sum, { payload }) => sum + payload.length, 0),
  );
  for (const sum of bytes) {
    expect(sum).toBeLessThanOrEqual(16 * 1024 ** 2);
    expect(sum).toBeGreaterThan(15.9 * 1024 ** 2);
  }
  expect(enqueue.length + skipCount).toBe(1800);
  expect(new Set(skip.map(({ reason }) => reason))).toEqual(
    new Set(['more than 16 MiB of effects in one push']),
  );
  expect(new Set(enqueue.map(({ effect }) => effect.name))).toEqual(new Set(['large', 'ci']));
  const firstSkipped = refs.indexOf(skip[0]!.ref);
  expect(enqueue.every(({ ref }) => refs.indexOf(ref) <= firstSkipped)).toBe(true);
});

test('it is planned in turns, each of few effects where their patterns are made to be slow', () => {
  const slow = Array.from({ length: 20 }, (_, n) =>
    defined(`slow-${n}`, JSON.stringify({ on: Array(64).fill(`refs/${'*a'.repeat(120)}*b`), run: 'make' })),
  );
  const turnsOf = (input: PlanInput): number => {
    const work = planInTurns(input);
    for (let turns = 1; ; turns += 1) {
      const { done, value } = work.next();
      if (!done) continue;
      expect(value).toEqual(planEffects(input));
      return turns;
    }
  };
  const refs = ['x', 'y'].map((end) => `refs/heads/${'a'.repeat(1000)}${end}`);
  expect(turnsOf(inputOf(refs))).toBe(1);
  expect(turnsOf(inputOf(refs, { definitions: slow }))).toBeGreaterThan(20);
});
