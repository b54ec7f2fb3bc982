import { isIP } from 'node:net';

/**
 * Where a request comes from. With `hops` proxies in front, each of which adds to X-Forwarded-For whom it heard from,
 * that is as many entries before the end; what a client wrote there itself comes before those and is not believed.
 */
export function clientAddress(
  peer: string | undefined,
  forwardedFor: string | undefined,
  hops: number,
): string {
  const chain = [...(forwardedFor ?? '').split(','), peer ?? ''].map(readAddress);
  const named = chain.at(Math.max(-chain.length, -1 - hops));
  return networkOf(named ?? readAddress(peer ?? '') ?? 'unknown');
}

/** An entry's address without port, brackets and zone; null if there is none in it. */
function readAddress(entry: string): string | null {
  const text = entry.trim();
  const host = /^\[([^\]]+)\](?::\d+)?$/.exec(text)?.[1] ?? /^([\d.]+):\d+$/.exec(text)?.[1] ?? text;
  const address = host.replace(/%.*$/, '').replace(/^::ffff:(?=\d+\.)/i, '');
  return isIP(address) === 0 ? null : address;
}

/** What one customer of a network has: an IPv4 address, or the first half of an IPv6 address. */
function networkOf(address: string): string {
  if (isIP(address) !== 6) return address;
  // The URL parser knows every spelling of an address and leaves one.
  const [head = '', tail] = new URL(`http://[${address}]`).hostname.slice(1, -1).split('::');
  const groups = [head, tail ?? ''].map((half) => (half === '' ? [] : half.split(':')));
  const missing = 8 - groups.flat().length;
  const all = [...groups[0]!, ...Array.from({ length: missing }, () => '0'), ...groups[1]!];
  return `${all.slice(0, 4).join(':')}::/64`;
}
