import { expect, test } from 'vitest';
import { chomp, decodePkt, encodePkt, FLUSH, PKT_BYTES_MAX } from './pkt-line.ts';

test('a packet survives the round trip, and the next one begins where it ends', () => {
  const bytes = Buffer.concat([encodePkt('hello\n'), FLUSH, encodePkt(Buffer.from([0xff, 0x00]))]);
  const first = decodePkt(bytes, 0);
  expect(first).toEqual({ packet: Buffer.from('hello\n'), next: 10 });
  expect(chomp(first!.packet!)).toEqual(Buffer.from('hello'));
  expect(decodePkt(bytes, 10)).toEqual({ packet: null, next: 14 });
  expect(decodePkt(bytes, 14)).toEqual({ packet: Buffer.from([0xff, 0x00]), next: 20 });
  expect(decodePkt(bytes, 20)).toBeNull();
});

test('a packet that is cut anywhere is incomplete, not an error', () => {
  const bytes = encodePkt('hello');
  for (let cut = 0; cut < bytes.length; cut += 1) expect(decodePkt(bytes.subarray(0, cut), 0)).toBeNull();
});

test.each(['zzzz', '0003', '0001', 'fff1', 'ffff', '-001', ' 123', '0x10'])('%s is no length', (digits) => {
  expect(() => decodePkt(Buffer.from(`${digits}payload`), 0)).toThrow(/bad line length/);
});

test('the longest packet is 65,520 bytes', () => {
  expect(encodePkt(Buffer.alloc(PKT_BYTES_MAX - 4)).length).toBe(PKT_BYTES_MAX);
  expect(() => encodePkt(Buffer.alloc(PKT_BYTES_MAX - 3))).toThrow(RangeError);
});
