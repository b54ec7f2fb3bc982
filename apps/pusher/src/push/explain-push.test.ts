import type { EffectPlan } from '@sluice/effect-spec';
import { effectId } from '@sluice/queue-core/repo';
import { expect, test } from 'vitest';
import { explainPush } from './explain-push.ts';

function planned(ref: string): EffectPlan['enqueue'][number] {
  const rest = { pushId: 'p1', priority: 0, maxAttempts: 3, dedupKey: ref, retainDedupKey: true };
  return { ref, effect: { repoId: 'r', payload: '{}', name: 'ci', ...rest } };
}

test('every effect is named with what became of it and why', () => {
  const lines = explainPush({
    pushId: 'p1',
    plan: {
      enqueue: [planned('refs/heads/a'), planned('refs/heads/b'), planned('refs/heads/c')],
      skip: [{ ref: 'refs/heads/d', name: 'ci', payload: '{}', reason: 'more than 3' }],
      skipCount: 3,
      unmatched: [{ ref: 'refs/tags/t', name: 'ci', why: 'matches none of refs/heads/*' }],
      unmatchedCount: 1,
    },
    broken: [{ name: 'old', problem: 'effect.yaml:1:1: expected a mapping' }],
    enqueued: [
      { effectId: effectId(7n), status: 'queued', superseded: [effectId(3n)] },
      { effectId: effectId(5n), status: 'duplicate', superseded: [] },
      { effectId: effectId(8n), status: 'skipped', reason: 'queue full' },
    ],
    skipped: [9n],
  });
  expect(lines).toEqual([
    'push p1',
    'effect 7 ci for refs/heads/a: queued',
    'effect 5 ci for refs/heads/b: already there, the same definition ran or waits for the same commit',
    'effect 8 ci for refs/heads/c: skipped: queue full; when others are done, or after sluice repo set r --max-queued <n>, sluice rerun 8 runs it after all',
    'effect 3 superseded by 7',
    'effect 9 ci for refs/heads/d: skipped: more than 3; sluice rerun 9 runs it after all',
    'and 2 more effects skipped without a record of each; push fewer refs at once',
    'no effect ci for refs/tags/t: matches none of refs/heads/*',
    'no effect old: effect.yaml:1:1: expected a mapping',
  ]);
});

test('many of a kind become one line with their number', () => {
  const enqueue = Array.from({ length: 60 }, (_, n) => planned(`refs/heads/${n}`));
  const lines = explainPush({
    pushId: 'p1',
    plan: {
      enqueue,
      skip: [],
      skipCount: 0,
      unmatched: [{ ref: 'refs/tags/t', name: 'ci', why: 'no' }],
      unmatchedCount: 3,
    },
    broken: [],
    enqueued: enqueue.map((_, n) => ({
      effectId: effectId(BigInt(n + 1)),
      status: 'queued',
      superseded: [],
    })),
    skipped: [],
  });
  expect(lines).toHaveLength(54);
  expect(lines.slice(-3)).toEqual([
    'and 10 more effects',
    'no effect ci for refs/tags/t: no',
    'and 2 more pairs of effect and ref that do not match',
  ]);
});
