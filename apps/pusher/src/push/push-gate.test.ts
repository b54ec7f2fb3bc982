import { NOT_APPLIED } from '@sluice/ref-store';
import { expect, test } from 'vitest';
import { judgeCommands } from './push-gate.ts';

const zero = '0'.repeat(40);
const oid = 'a'.repeat(40);
const ordinary = { objectFormat: 'sha1', claimRef: null } as const;

function command(name: string, newOid = oid, oldOid = zero) {
  return { name: Buffer.from(name), oldOid, newOid };
}

test('a push without a fault goes on', () => {
  expect(judgeCommands([command('refs/heads/a'), command('refs/tags/b', zero, oid)], ordinary)).toBeNull();
});

test('one fault refuses all, and each ref has a reason', () => {
  expect(judgeCommands([command('refs/heads/a'), command('refs/heads/..')], ordinary)).toEqual([
    { name: Buffer.from('refs/heads/a'), reason: NOT_APPLIED },
    { name: Buffer.from('refs/heads/..'), reason: 'bad name: contains ..' },
  ]);
});

test('a ref that no clone could keep is not set, and one that is there can be deleted', () => {
  const name = `refs/heads/${'a'.repeat(300)}/c`;
  expect(judgeCommands([command(name)], ordinary)?.[0]?.reason).toContain('at most 250 bytes');
  expect(judgeCommands([command(name, oid, 'b'.repeat(40))], ordinary)?.[0]?.reason).toContain('got 300');
  expect(judgeCommands([command(name, zero, oid)], ordinary)).toBeNull();
});

test('a claim sets exactly its own ref', () => {
  const rules = { objectFormat: 'sha1', claimRef: 'refs/meta/results/ci/x' } as const;
  expect(judgeCommands([command('refs/meta/results/ci/x')], rules)).toBeNull();
  expect(judgeCommands([command('refs/meta/results/ci/x', zero, oid)], rules)?.[0]?.reason).toContain(
    'alone',
  );
  expect(judgeCommands([command('refs/meta/results/ci/y')], rules)?.[0]?.reason).toContain('alone');
});

test('object names have the length of the repository', () => {
  const rules = { objectFormat: 'sha256', claimRef: null } as const;
  expect(judgeCommands([command('refs/heads/a')], rules)?.[0]?.reason).toBe('expected sha256 object names');
});

test('results are for claims, and nothing stands in their way', () => {
  for (const name of ['refs/meta/results', 'refs/meta/results/ci/x']) {
    expect(judgeCommands([command(name)], ordinary)?.[0]?.reason).toContain('written by dispatchers');
  }
  expect(judgeCommands([command('refs/meta/result'), command('refs/meta/resultsx')], ordinary)).toBeNull();
});

test('no more definitions are looked at than a repository can have', () => {
  const definitions = Array.from({ length: 501 }, (_, n) => command(`refs/meta/effects/${n}`));
  const reason = 'expected at most 500 effect definitions in a repository, got 501 in this push';
  expect(judgeCommands(definitions, ordinary)?.map((report) => report.reason)).toEqual(
    definitions.map(() => reason),
  );
  expect(judgeCommands(definitions.slice(1), ordinary)).toBeNull();
  const deleted = definitions.map(({ name }) => command(name.toString(), zero, oid));
  expect(judgeCommands(deleted, ordinary)).toBeNull();
});
