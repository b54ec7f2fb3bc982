import { expect, test } from 'vitest';
import { attestationLevel, parsePolicy, type Policy } from './attestation-policy.ts';

function policy(text: string): Policy {
  const parsed = parsePolicy(text);
  if ('problems' in parsed) throw new Error(JSON.stringify(parsed.problems));
  return parsed.policy;
}

test('the strictest level over all patterns and all refs of a push counts', () => {
  const one = policy(
    'attestation:\n  refs/heads/**: required\n  refs/heads/wip/*: off\n  refs/notes/*: off\n',
  );
  expect(attestationLevel(one, ['refs/notes/a'])).toBe('off');
  expect(attestationLevel(one, ['refs/heads/wip/a'])).toBe('required');
  expect(attestationLevel(one, ['refs/notes/a', 'refs/heads/a'])).toBe('required');
  expect(attestationLevel(one, ['refs/notes/a', 'refs/tags/a'])).toBe('optional');
});

test('without a word of the policy, what is below refs/meta has to be signed and the rest may be', () => {
  for (const none of [null, policy('attestation: {}')]) {
    expect(attestationLevel(none, ['refs/heads/main'])).toBe('optional');
    expect(attestationLevel(none, ['refs/heads/main', 'refs/meta/effects/ci'])).toBe('required');
    expect(attestationLevel(none, ['refs/meta/config'])).toBe('required');
  }
});

test.each([
  ['', 1, 'a mapping with "attestation", got nothing'],
  ['attestation: required\n', 1, 'a mapping of ref patterns to levels'],
  ['atestation: {}\n', 1, 'expected attestation, got the unknown key'],
  ['attestation:\n  heads: off\n', 2, 'expected a ref pattern such as refs/heads/**'],
  ['attestation:\n  refs/heads/*: always\n', 2, 'expected off, optional, required, got "always"'],
  ['attestation:\n  refs/heads/*: false\n', 2, 'expected off, optional, required, got the boolean false'],
  ['attestation:\n  refs/heads/*:\n', 2, 'expected off, optional, required, got nothing'],
])('%j is refused', (text, line, message) => {
  expect(parsePolicy(text)).toMatchObject({
    problems: expect.arrayContaining([
      expect.objectContaining({ line, message: expect.stringContaining(message) }),
    ]),
  });
});
