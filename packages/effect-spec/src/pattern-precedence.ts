/**
 * Orders ref patterns: of two that match the same ref, the one that sorts first decides. First comes
 *
 * 1. the one with more characters before its first wildcard,
 * 2. else the one with more characters besides wildcards,
 * 3. else the one with fewer `**`,
 * 4. else the one with fewer wildcards,
 * 5. else the one that is first in byte order.
 *
 * So an exact name comes before every pattern that matches it, and a pattern before every other that matches all it
 * matches. By the first rule, nothing decides about `refs/meta/effects/…` before a pattern that begins with just that.
 */
export function comparePatterns(a: string, b: string): number {
  const [left, right] = [measure(a), measure(b)];
  return (
    right.before - left.before ||
    right.literals - left.literals ||
    left.doubles - right.doubles ||
    left.wildcards - right.wildcards ||
    Buffer.compare(Buffer.from(a), Buffer.from(b))
  );
}

function measure(pattern: string): {
  before: number;
  literals: number;
  doubles: number;
  wildcards: number;
} {
  const wildcards = pattern.match(/\*+/g) ?? [];
  const first = pattern.indexOf('*');
  return {
    before: first === -1 ? pattern.length : first,
    literals: pattern.replaceAll('*', '').length,
    doubles: wildcards.filter((stars) => stars.length > 1).length,
    wildcards: wildcards.length,
  };
}
