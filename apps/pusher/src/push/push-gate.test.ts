import { expect, test } from 'vitest';
import { judgeCommands, NOT_APPLIED } from './push-gate.ts';

const zero = '0'.repeat(40);
const oid = 'a'.repeat(40);
const ordinary = { objectFormat: 'sha1', claimRef: null, isAdmin: true } as const;

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

test('a claim sets exactly its own ref', () => {
  const rules = { objectFormat: 'sha1', claimRef: 'refs/meta/results/ci/x', isAdmin: false } as const;
  expect(judgeCommands([command('refs/meta/results/ci/x')], rules)).toBeNull();
  expect(judgeCommands([command('refs/meta/results/ci/x', zero, oid)], rules)?.[0]?.reason).toContain(
    'alone',
  );
  expect(judgeCommands([command('refs/meta/results/ci/y')], rules)?.[0]?.reason).toContain('alone');
});

test('object names have the length of the repository', () => {
  const rules = { objectFormat: 'sha256', claimRef: null, isAdmin: true } as const;
  expect(judgeCommands([command('refs/heads/a')], rules)?.[0]?.reason).toBe('expected sha256 object names');
});

test('who is no admin changes nothing below refs/meta, nor stands in its way', () => {
  const rules = { ...ordinary, isAdmin: false };
  for (const name of [
    'refs/meta',
    'refs/meta/effects/ci',
    'refs/meta/effects',
    'refs/meta/config',
    'refs/meta/x/y',
  ]) {
    expect(
      judgeCommands([command('refs/heads/a'), command(name)], rules)?.map(({ reason }) => reason),
    ).toEqual([NOT_APPLIED, 'expected a token with admin: what is below refs/meta/ decides what pushes run']);
    expect(judgeCommands([command(name, zero, oid)], rules)).not.toBeNull();
    expect(judgeCommands([command(name)], ordinary)).toBeNull();
  }
  expect(judgeCommands([command('refs/metadata'), command('refs/heads/refs/meta/x')], rules)).toBeNull();
});
