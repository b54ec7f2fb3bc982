const HEADER_BYTES = 4;

/** So many prefixes make git list everything. */
const PREFIXES_MAX = 65_536;

/**
 * Whether a fetch request may be answered with refs that have this prefix: in protocol version 2 it asks for a list of
 * refs, and not only for others. A list that cannot be read counts as one that may.
 */
export function mayListRefs(body: Buffer, prefix: string): boolean {
  let isList = false;
  const wanted: string[] = [];
  for (const line of readLines(body)) {
    if (line === 'unreadable') return isList;
    // What is no list is not read to its end: it may name very many commits.
    if (line === 'end' && !isList) return false;
    if (line === 'end') continue;
    if (line.text === 'command=ls-refs') isList = true;
    else if (line.text.startsWith('ref-prefix ')) wanted.push(line.text.slice('ref-prefix '.length));
  }
  if (!isList) return false;
  if (wanted.length === 0 || wanted.length >= PREFIXES_MAX) return true;
  return wanted.some((one) => one.startsWith(prefix) || prefix.startsWith(one));
}

/** The payloads of all packets, without their line feeds, and the ends of sections. */
function* readLines(body: Buffer): Generator<{ text: string } | 'end' | 'unreadable'> {
  for (let at = 0; at < body.length;) {
    const digits = body.toString('latin1', at, at + HEADER_BYTES);
    const length = Number.parseInt(digits, 16);
    const next = at + Math.max(length, HEADER_BYTES);
    if (!/^[0-9a-fA-F]{4}$/.test(digits) || next > body.length) return yield 'unreadable';
    if (length < HEADER_BYTES) yield 'end';
    else yield { text: body.toString('utf8', at + HEADER_BYTES, next).replace(/\n$/, '') };
    at = next;
  }
}
