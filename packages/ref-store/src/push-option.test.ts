import { expect, test } from 'vitest';
import { checkPushOption, PUSH_OPTION_BYTES_MAX, PUSH_OPTIONS_MAX } from './push-option.ts';

test.each([[''], ['ci.skip'], [' key = value '], ['caf\u00e9 \u202e'], ['x'.repeat(PUSH_OPTION_BYTES_MAX)]])(
  '%j can be recorded',
  (option) => {
    expect(checkPushOption(Buffer.from(option), PUSH_OPTIONS_MAX - 1)).toBeNull();
  },
);

test.each([
  ['a line feed', Buffer.from('a\nb'), 0, 'each on one line'],
  ['NUL', Buffer.from('a\0'), 0, 'each on one line'],
  ['a C1 control', Buffer.from('\u009b2J'), 0, 'each on one line'],
  ['bytes that are not UTF-8', Buffer.from([0x61, 0xff]), 0, 'in UTF-8'],
  ['4,097 bytes', Buffer.alloc(4097, 'x'), 0, 'at most 4096 bytes, got one of 4097'],
  ['a 65th one', Buffer.from('x'), 64, 'at most 64 push options, got more'],
])('%s cannot', (_, option, index, reason) => {
  expect(checkPushOption(option, index)).toContain(reason);
});
