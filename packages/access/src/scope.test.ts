import { expect, test } from 'vitest';
import { hasScope, SCOPES, type Scope } from './scope.ts';

test.each<[Scope, Scope[]]>([
  ['read', ['read']],
  ['write', ['read', 'write']],
  ['admin', ['read', 'write', 'admin']],
  ['worker', ['worker']],
])('%s is enough for %j', (scope, allowed) => {
  expect(SCOPES.filter((needed) => hasScope([scope], needed))).toEqual(allowed);
});

test('several scopes allow what each of them allows, and none allow nothing', () => {
  expect(SCOPES.filter((needed) => hasScope(['worker', 'read'], needed))).toEqual(['read', 'worker']);
  expect(SCOPES.filter((needed) => hasScope([], needed))).toEqual([]);
});
