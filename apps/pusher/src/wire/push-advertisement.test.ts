import { expect, test } from 'vitest';
import { encodePkt } from './pkt-line.ts';
import { capabilitiesOf, encodePushAdvertisement } from './push-advertisement.ts';

const zero = '0'.repeat(40);
const one = '1'.repeat(40);

test('capabilities stand behind the first ref, or behind a name that is none', () => {
  const about = { objectFormat: 'sha1', capabilities: 'report-status atomic' } as const;
  const empty = encodePushAdvertisement({ ...about, lines: Buffer.alloc(0) });
  expect(empty.toString()).toBe(`0052${zero} capabilities^{}\0report-status atomic\n0000`);
  const lines = Buffer.from(`${one} refs/heads/é\n${zero} refs/heads/main\n`);
  const full = encodePushAdvertisement({ ...about, lines });
  expect(full.toString()).toBe(
    `0050${one} refs/heads/é\0report-status atomic\n003d${zero} refs/heads/main\n0000`,
  );
  expect(encodePushAdvertisement({ ...about, lines })).toEqual(full);
  expect([empty, full].map(capabilitiesOf)).toEqual(['report-status atomic', 'report-status atomic']);
  expect(() => capabilitiesOf(encodePkt('x'))).toThrow('expected an advertisement');
});
