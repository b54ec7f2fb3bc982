import { expect, test } from 'vitest';
import { editPolicy } from './edit-policy.ts';
import { parsePolicy } from './parse-policy.ts';

const TEXT = '# ours\nrules:\n  # nobody rewrites it\n  refs/heads/main: { force: false } # since 2020\n';

const edit = (text: string | null, ...change: [string, Parameters<typeof editPolicy>[2]]): string =>
  editPolicy(text === null ? null : Buffer.from(text), ...change) ?? '';

test('a first rule makes the file, and a further one leaves the others as they are', () => {
  const first = edit(null, 'refs/tags/*', { force: false, delete: false });
  expect(first).toBe('rules:\n  refs/tags/*: { force: false, delete: false }\n');
  expect(edit(first, 'refs/b/**', { roles: [], attestation: 'off' })).toBe(
    `${first}  refs/b/**: { roles: [], attestation: off }\n`,
  );
});

test('a rule keeps what the change does not name, and the file its comments', () => {
  expect(edit(TEXT, 'refs/heads/main', { roles: ['admin', 'worker'] })).toBe(
    TEXT.replace('force: false', 'force: false, roles: [ admin, worker ]'),
  );
  expect(edit(TEXT, 'refs/heads/main', { force: true })).toBe(TEXT.replace('false', 'true'));
});

test('the last rule can be taken away and another come in its place', () => {
  const none = edit('rules:\n  refs/a: { force: true }\n', 'refs/a', 'unset');
  expect(parsePolicy(none)).toHaveProperty('policy');
  expect(edit(none, 'refs/b', { force: true })).toBe('rules:\n  refs/b: { force: true }\n');
  expect(editPolicy(Buffer.from(none), 'refs/b', 'unset')).toBeNull();
});

test.each([
  '{rules: {refs/a: {force: true}}}',
  'rules:\r\n  "refs/a":\r\n    force: true\r\n',
  '---\nrules:\n  ? refs/a\n  : {force: true}\n',
])('however it is written, %j can be added to', (text) => {
  const after = parsePolicy(edit(text, 'refs/b', { delete: false, attestation: 'required' }));
  expect(after).toEqual(
    parsePolicy('rules: {refs/a: {force: true}, refs/b: {delete: false, attestation: required}}'),
  );
});
