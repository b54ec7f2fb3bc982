import { expect, test } from 'vitest';
import { mayListRefs } from './fetch-request.ts';
import { encodePkt } from './pkt-line.ts';

const results = 'refs/meta/results/';
const DELIMITER = Buffer.from('0001');
const FLUSH = Buffer.from('0000');

function request(command: string, ...lines: string[]): Buffer {
  const packets = lines.map((line) => encodePkt(`${line}\n`));
  const capabilities = [encodePkt(`command=${command}\n`), encodePkt('agent=git/2.39.5')];
  return Buffer.concat([...capabilities, DELIMITER, ...packets, FLUSH]);
}

test.each([
  ['no prefix', request('ls-refs', 'peel', 'symrefs'), true],
  ['branches', request('ls-refs', 'peel', 'ref-prefix refs/heads/', 'ref-prefix HEAD'), false],
  ['a prefix of the prefix', request('ls-refs', 'ref-prefix refs/meta/'), true],
  ['the prefix without its slash', request('ls-refs', 'ref-prefix refs/meta/results'), true],
  ['one with the prefix', request('ls-refs', 'ref-prefix HEAD', `ref-prefix ${results}ci/1`), true],
  ['a neighbour', request('ls-refs', 'ref-prefix refs/meta/resultsx'), false],
  ['everything', request('ls-refs', 'ref-prefix '), true],
  ['a fetch', request('fetch', `want ${'1'.repeat(40)}`, 'done'), false],
  ['too many', request('ls-refs', ...Array.from({ length: 65_536 }, () => 'ref-prefix HEAD')), true],
  ['an end too early', request('ls-refs', 'ref-prefix HEAD').subarray(0, -6), true],
  ['another protocol', Buffer.concat([encodePkt(`want ${'1'.repeat(40)}\n`), FLUSH]), false],
  ['no packet', Buffer.from('nonsense'), false],
])('%s', (_, body, expected) => {
  expect(mayListRefs(body, results)).toBe(expected);
});
