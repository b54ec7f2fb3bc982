/**
 * Whether `name` matches `pattern`. `*` stands for any run of characters without `/`, `**` for any run at all; every
 * other character stands for itself. Whatever the pattern, each character of the name is looked at once; `matching-steps.ts`
 * says what that costs.
 */
export function matchesPattern(pattern: string, name: string): boolean {
  const { before, behind, isOne } = wildcardsIn(pattern);
  if (before === pattern.length) return pattern === name;
  const tailAt = name.length - (pattern.length - behind);
  if (tailAt < before || !name.startsWith(pattern.slice(0, before)) || !name.endsWith(pattern.slice(behind)))
    return false;
  if (!isOne) return reachesEnd(pattern, name);
  const slash = behind - before > 1 ? -1 : name.indexOf('/', before);
  return slash === -1 || slash >= tailAt;
}

/** What in a pattern no ref name can match, such as a space; undefined: nothing. */
export function strayInPattern(pattern: string): string | undefined {
  return /[\s\p{Cc}?[\]\\^~:]|\/\/|\/$|\.\.|@\{/u.exec(pattern)?.[0];
}

const STAR = 0x2a;
const SLASH = 0x2f;

/** Where a pattern's first wildcard begins and its last one ends, and whether that is one and the same. */
export function wildcardsIn(pattern: string): { before: number; behind: number; isOne: boolean } {
  const before = pattern.indexOf('*');
  if (before === -1) return { before: pattern.length, behind: pattern.length, isOne: false };
  const behind = pattern.lastIndexOf('*') + 1;
  let at = before;
  while (pattern.charCodeAt(at) === STAR) at += 1;
  return { before, behind, isOne: at === behind };
}

const BITS = 32;
const ASCII = 128;

/** How many integers hold a bit for each place between two characters of a pattern. */
export function wordsFor(pattern: string): number {
  return Math.ceil((pattern.length + 1) / BITS);
}

/** Sets of places: those that a character leads to, for each of ASCII, and the sets of {@link reachesEnd}. */
let sets = new Uint32Array(0);

/**
 * Whether a name can be followed to the end of a pattern. All places in the pattern that the match may have got to are
 * kept together, a bit for each, wildcards left aside: a place with a wildcard in it is one that may be stayed at.
 */
function reachesEnd(pattern: string, name: string): boolean {
  const words = wordsFor(pattern);
  const anywhere = ASCII * words;
  const inPart = anywhere + words;
  const reached = inPart + words;
  // One piece of memory for all calls: to find the places anew takes less time than to make room for them.
  if (sets.length < reached + words) sets = new Uint32Array(reached + words);
  else sets.fill(0, 0, reached + words);
  const beyond = new Map<number, Uint32Array>();
  let end = 0;
  for (let at = 0; at < pattern.length; at += 1) {
    const code = pattern.charCodeAt(at);
    if (code === STAR) {
      add(sets, inPart, end);
      if (pattern.charCodeAt(at - 1) === STAR) add(sets, anywhere, end);
      continue;
    }
    end += 1;
    if (code < ASCII) add(sets, code * words, end);
    else {
      const leads = beyond.get(code) ?? new Uint32Array(words);
      beyond.set(code, leads);
      add(leads, 0, end);
    }
  }
  const nowhere = new Uint32Array(words);
  sets[reached] = 1;
  for (let at = 0; at < name.length; at += 1) {
    const code = name.charCodeAt(at);
    const leads = code < ASCII ? sets : (beyond.get(code) ?? nowhere);
    const from = code < ASCII ? code * words : 0;
    const stays = code === SLASH ? anywhere : inPart;
    let carried = 0;
    let left = 0;
    for (let word = 0; word < words; word += 1) {
      const before = sets[reached + word]!;
      const next = (((before << 1) | carried) & leads[from + word]!) | (before & sets[stays + word]!);
      carried = before >>> (BITS - 1);
      sets[reached + word] = next;
      left |= next;
    }
    if (left === 0) return false;
  }
  return (sets[reached + Math.floor(end / BITS)]! & (1 << (end % BITS))) !== 0;
}

function add(set: Uint32Array, from: number, place: number): void {
  set[from + Math.floor(place / BITS)]! |= 1 << (place % BITS);
}
