import { expect, test } from 'vitest';
import { clientAddress } from './client-address.ts';

test.each([
  ['no proxy: the peer, whatever the header says', '192.0.2.1', '203.0.113.9', 0, '192.0.2.1'],
  ['one proxy: whom it heard from', '10.0.0.1', '203.0.113.9', 1, '203.0.113.9'],
  ['what the client put in front is not believed', '10.0.0.1', '198.51.100.1, 203.0.113.9', 1, '203.0.113.9'],
  ['two proxies', '10.0.0.1', '1.1.1.1, 203.0.113.9, 10.0.0.2', 2, '203.0.113.9'],
  ['fewer entries than proxies: the farthest there is', '10.0.0.1', '203.0.113.9', 3, '203.0.113.9'],
  ['no header: the proxy itself', '10.0.0.1', undefined, 1, '10.0.0.1'],
  ['an entry with a port', '10.0.0.1', '203.0.113.9:4711', 1, '203.0.113.9'],
  ['an entry that is no address', '10.0.0.1', '203.0.113.9, unknown', 1, '10.0.0.1'],
  ['an entry that is no number', '10.0.0.1', '203.0.113.999', 1, '10.0.0.1'],
  ['IPv4 inside IPv6', '::ffff:192.0.2.1', undefined, 0, '192.0.2.1'],
  ['IPv6: its network', '2001:db8:1:2:3:4:5:6', undefined, 0, '2001:db8:1:2::/64'],
  ['IPv6, another spelling', '2001:0DB8:1:2::6', undefined, 0, '2001:db8:1:2::/64'],
  ['IPv6 with gaps', '2001:db8::1', undefined, 0, '2001:db8:0:0::/64'],
  ['IPv6 loopback', '::1', undefined, 0, '0:0:0:0::/64'],
  ['IPv6 with a zone', 'fe80::1%eth0', undefined, 0, 'fe80:0:0:0::/64'],
  ['IPv6 from a proxy, with a port', '10.0.0.1', '[2001:db8:1:2:3::4]:99', 1, '2001:db8:1:2::/64'],
  ['a peer that has gone', undefined, undefined, 0, 'unknown'],
])('%s', (_, peer, forwardedFor, hops, address) => {
  expect(clientAddress(peer, forwardedFor, hops)).toBe(address);
});
