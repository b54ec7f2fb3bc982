/**
 * Whether `name` matches `pattern`. `*` stands for any run of characters without `/`, `**` for any run at all; every
 * other character stands for itself. Time is bounded by the product of the two lengths, whatever the pattern: a set of
 * positions is carried along the name, so that nothing is ever tried twice.
 */
export function matchesPattern(pattern: string, name: string): boolean {
  const firstStar = pattern.indexOf('*');
  if (firstStar === -1) return pattern === name;
  const lastStar = pattern.lastIndexOf('*');
  const head = pattern.slice(0, firstStar);
  const tail = pattern.slice(lastStar + 1);
  if (name.length < head.length + tail.length || !name.startsWith(head) || !name.endsWith(tail)) return false;
  return matchesTokens(
    tokens(pattern.slice(firstStar, lastStar + 1)),
    name.slice(head.length, name.length - tail.length),
  );
}

type Token = { readonly kind: 'segment' | 'any' } | { readonly kind: 'text'; readonly unit: string };

function tokens(pattern: string): Token[] {
  const found: Token[] = [];
  for (const [part] of pattern.matchAll(/\*+|[^*]/g)) {
    found.push(
      part[0] !== '*' ? { kind: 'text', unit: part } : { kind: part.length === 1 ? 'segment' : 'any' },
    );
  }
  return found;
}

function matchesTokens(pattern: readonly Token[], name: string): boolean {
  if (pattern.length === 1) return pattern[0]?.kind === 'any' || !name.includes('/');
  let live = withoutReading(pattern, new Uint8Array(pattern.length + 1).fill(1, 0, 1));
  for (let i = 0; i < name.length; i += 1) {
    const next = new Uint8Array(pattern.length + 1);
    let isAlive = false;
    for (const [position, token] of pattern.entries()) {
      if (live[position] === 0) continue;
      if (token.kind === 'text') {
        if (token.unit !== name[i]) continue;
        next[position + 1] = 1;
      } else {
        if (token.kind === 'segment' && name[i] === '/') continue;
        next[position] = 1;
      }
      isAlive = true;
    }
    if (!isAlive) return false;
    live = withoutReading(pattern, next);
  }
  return live[pattern.length] === 1;
}

/** A wildcard may stand for nothing: being in front of it is being behind it as well. */
function withoutReading(pattern: readonly Token[], live: Uint8Array): Uint8Array {
  for (const [position, token] of pattern.entries()) {
    if (live[position] === 1 && token.kind !== 'text') live[position + 1] = 1;
  }
  return live;
}
