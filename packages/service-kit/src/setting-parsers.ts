/** Turns the text of a setting into its value, or says what it expected. */
export type Parser<T> = (text: string) => { value: T } | { expected: string };

/** A place to listen on or connect to. */
export interface HostPort {
  host: string;
  port: number;
}

/** Any text without control characters. */
export function text(): Parser<string> {
  // A line break in a token or path is always a paste mistake, and it would split headers and log lines.
  return (value) => (/\p{Cc}/u.test(value) ? { expected: 'text without control characters' } : { value });
}

/** A whole number in decimal digits. */
export function integer(range: { min?: number; max?: number } = {}): Parser<number> {
  return wholeNumber(range, 'a whole number');
}

/** A duration: whole milliseconds, without a unit. */
export function durationMs(range: { min?: number; max?: number } = {}): Parser<number> {
  return wholeNumber(range, 'whole milliseconds without a unit');
}

function wholeNumber(
  { min = 0, max = 2_147_483_647 }: { min?: number; max?: number },
  what: string,
): Parser<number> {
  return (value) => {
    const number = /^-?\d{1,15}$/.test(value) ? Number(value) : Number.NaN;
    return number >= min && number <= max ? { value: number } : { expected: `${what} from ${min} to ${max}` };
  };
}

/** `true` or `false`; also 1 and 0, yes and no, on and off. */
export function boolean(): Parser<boolean> {
  return (value) => {
    const lower = value.toLowerCase();
    if (['1', 'true', 'yes', 'on'].includes(lower)) return { value: true };
    if (['0', 'false', 'no', 'off'].includes(lower)) return { value: false };
    return { expected: 'true or false' };
  };
}

/** One of a few words. */
export function oneOf<const T extends string>(...words: readonly T[]): Parser<T> {
  return (value) => {
    const word = words.find((candidate) => candidate === value);
    return word === undefined ? { expected: `one of ${words.join(', ')}` } : { value: word };
  };
}

/** An absolute URL with one of the given protocols, such as `['http:', 'https:']`. A trailing slash is dropped. */
export function url(protocols: readonly string[]): Parser<string> {
  return (value) => {
    const parsed = URL.parse(value);
    return parsed !== null && protocols.includes(parsed.protocol)
      ? { value: value.replace(/\/+$/, '') }
      : { expected: `a URL that starts with ${protocols.map((protocol) => `${protocol}//`).join(' or ')}` };
  };
}

/** `host:port`; an IPv6 address stands in brackets. Port 0 lets the system choose. */
export function hostPort(): Parser<HostPort> {
  return (value) => {
    const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^\s:[\]/]+)):(\d{1,5})$/.exec(value);
    const port = Number(match?.[3]);
    const host = match?.[1] ?? match?.[2];
    return host !== undefined && port <= 65_535 ? { value: { host, port } } : { expected: 'host:port' };
  };
}

/** Whether only this machine can reach a listener on that host. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host);
}
