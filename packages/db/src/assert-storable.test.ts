import { expect, test } from 'vitest';
import { assertStorable } from './assert-storable.ts';

test.each(['', 'plain', 'é 漢字 🦑', '\u0001 control', '\u{10FFFF}'])('accepts %j', (value) => {
  expect(() => assertStorable('payload', value)).not.toThrow();
});

test.each([
  ['a\0b', 'a NUL character at index 1'],
  ['ab\uD83E', 'a lone surrogate at index 2'],
  ['\uDD91ab', 'a lone surrogate at index 0'],
  ['🦑\uD83Ex', 'a lone surrogate at index 2'],
])('refuses %j and names field and place', (value, place) => {
  expect(() => assertStorable('effects[3].payload', value)).toThrow(
    expect.objectContaining({
      code: 'invalid_argument',
      message: expect.stringContaining(
        `effects[3].payload: expected text that PostgreSQL can store, got ${place}`,
      ),
    }),
  );
});
