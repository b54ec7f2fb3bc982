import { parseDefinition, planEffects } from '@sluice/effect-spec';
import { expect, test } from 'vitest';
import { Obligations } from './obligations.ts';

const oid = (n: number): string => String(n).repeat(40);

/** Adds what a push of the commit to the ref asks for. */
function ask(obligations: Obligations, push: { id: number; ref: string; commit: number }, more = ''): void {
  const parsed = parseDefinition(`on: [refs/**]\nrun: make\n${more}`);
  if ('problems' in parsed) throw new Error(JSON.stringify(parsed.problems));
  const { enqueue } = planEffects({
    repoId: 'acme/api',
    pushId: oid(push.id),
    signer: null,
    applied: [{ name: push.ref, oldOid: null, newOid: oid(push.commit) }],
    definitions: [{ name: 'ci', oid: oid(9), definition: parsed.definition }],
    facts: new Map([[oid(push.commit), { commit: oid(push.commit), tree: oid(8) }]]),
    hops: push.id,
    effectsMax: 10,
    skipReason: null,
  });
  for (const planned of enqueue) obligations.add(planned);
}

test('the same effect asked for again is one, of the push that asked first', () => {
  const obligations = new Obligations();
  ask(obligations, { id: 1, ref: 'refs/heads/a', commit: 5 });
  ask(obligations, { id: 2, ref: 'refs/heads/b', commit: 5 });
  ask(obligations, { id: 3, ref: 'refs/heads/a', commit: 5 });
  expect(obligations.all().map(({ effect, causes }) => [effect.pushId, causes])).toEqual([
    [
      oid(1),
      [
        { pushId: oid(1), ref: 'refs/heads/a' },
        { pushId: oid(3), ref: 'refs/heads/a' },
      ],
    ],
    [oid(2), [{ pushId: oid(2), ref: 'refs/heads/b' }]],
  ]);
  expect(obligations.all().some((one) => obligations.isSuperseded(one))).toBe(false);
  expect(obligations.hopsOf(`refs/meta/results/ci/${oid(5)}`)).toBe(3);
  expect(obligations.hopsOf(`refs/meta/results/ci/${oid(6)}`)).toBeUndefined();
});

test('of a group that supersedes the one asked for last counts, be it the first one again', () => {
  const concurrency = 'concurrency:\n  group: deploy\n  supersede: true\n';
  const obligations = new Obligations();
  ask(obligations, { id: 1, ref: 'refs/heads/main', commit: 5 }, concurrency);
  ask(obligations, { id: 2, ref: 'refs/heads/main', commit: 6 }, concurrency);
  ask(obligations, { id: 3, ref: 'refs/heads/main', commit: 5 }, concurrency);
  const standing = obligations.all().map((one) => [one.effect.pushId, obligations.isSuperseded(one)]);
  expect(standing).toEqual([
    [oid(2), true],
    [oid(3), false],
  ]);
});
