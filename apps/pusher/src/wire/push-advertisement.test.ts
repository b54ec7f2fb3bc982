import { expect, test } from 'vitest';
import { encodePkt } from './pkt-line.ts';
import { capabilitiesOf, encodePushAdvertisement } from './push-advertisement.ts';

const zero = '0'.repeat(40);
const one = '1'.repeat(40);

test('capabilities stand behind the first ref, or behind a name that is none', () => {
  const about = { objectFormat: 'sha1', capabilities: 'report-status atomic' } as const;
  const encode = (lines: Buffer): Buffer => Buffer.concat(encodePushAdvertisement({ ...about, lines }));
  const empty = encode(Buffer.alloc(0));
  expect(empty.toString()).toBe(`0052${zero} capabilities^{}\0report-status atomic\n0000`);
  const lines = Buffer.from(`${one} refs/heads/é\n${zero} refs/heads/main\n`);
  const full = encode(lines);
  expect(full.toString()).toBe(
    `0050${one} refs/heads/é\0report-status atomic\n003d${zero} refs/heads/main\n0000`,
  );
  expect(encode(lines)).toEqual(full);
  expect([empty, full].map(capabilitiesOf)).toEqual(['report-status atomic', 'report-status atomic']);
  expect(() => capabilitiesOf(encodePkt('x'))).toThrow('expected an advertisement');
});

test('the refs behind the first are in memory once, however many are shown them', () => {
  const lines = Buffer.from(`${one} refs/heads/a\n${one} refs/heads/b\n`);
  const [mine, yours] = ['atomic', 'atomic push-cert=x'].map((capabilities) =>
    encodePushAdvertisement({ objectFormat: 'sha1', capabilities, lines }),
  );
  expect(mine?.[1]?.toString()).toBe(`003a${one} refs/heads/b\n`);
  expect(mine?.[1]?.buffer).toBe(yours?.[1]?.buffer);
  // Small buffers may lie side by side in one.
  expect(mine?.[1]?.byteOffset).toBe(yours?.[1]?.byteOffset);
  expect(mine?.[0]).not.toEqual(yours?.[0]);
});
