/**
 * Whether `name` matches `pattern`. `*` stands for any run of characters without `/`, `**` for any run at all; every
 * other character stands for itself. Whatever the pattern, nothing is tried twice: of several places where the match may
 * have got to, only the first of each part between slashes is kept, since everything is reachable from it.
 */
export function matchesPattern(pattern: string, name: string): boolean {
  const { first, steps, last } = compiled(pattern);
  if (last === null) return first === name;
  const tailAt = name.length - last.text.length;
  if (tailAt < first.length || !name.startsWith(first) || !name.endsWith(last.text)) return false;
  let places = [first.length];
  for (const [index, step] of steps.entries()) {
    places = advance(name, places, step, (steps[index + 1] ?? last).after);
    if (places.length === 0) return false;
  }
  const isInReach = (place: number): boolean =>
    place <= tailAt && (last.after === 'any' || endOfPart(name, place) >= tailAt);
  return places.some(isInReach);
}

/** What in a pattern no ref name can match, such as a space; undefined: nothing. */
export function strayInPattern(pattern: string): string | undefined {
  return /[\s\p{Cc}?[\]\\^~:]|\/\/|\/$|\.\.|@\{/u.exec(pattern)?.[0];
}

/** A literal text and the wildcard in front of it. */
interface Step {
  readonly after: 'segment' | 'any';
  readonly text: string;
}

interface Compiled {
  readonly first: string;
  readonly steps: readonly Step[];
  /** Null: the pattern has no wildcard. */
  readonly last: Step | null;
}

const KNOWN_MAX = 4096;
const known = new Map<string, Compiled>();

/** A push matches the same few patterns against each of its refs. */
function compiled(pattern: string): Compiled {
  const found = known.get(pattern);
  if (found !== undefined) return found;
  if (known.size >= KNOWN_MAX) known.clear();
  const [first = '', ...texts] = pattern.split(/\*+/);
  const stars = pattern.match(/\*+/g) ?? [];
  const steps = texts.map((text, index): Step => ({
    after: stars[index]!.length === 1 ? 'segment' : 'any',
    text,
  }));
  const last = steps.pop() ?? null;
  const made = { first, steps, last };
  known.set(pattern, made);
  return made;
}

/** Where the match may have got to after one more step: in ascending order, at most one place in each part. */
function advance(name: string, places: readonly number[], step: Step, next: Step['after']): number[] {
  const reached: number[] = [];
  /** Returns whether further places would add nothing. */
  const add = (at: number): boolean => {
    const end = at + step.text.length;
    const before = reached.at(-1);
    if (before === undefined || endOfPart(name, before) < end) reached.push(end);
    // Whatever follows, `**` reaches it from the first place as well as from any other.
    return next === 'any';
  };
  if (step.after === 'any') {
    for (let at = name.indexOf(step.text, places[0]); at !== -1;) {
      if (add(at)) break;
      at = name.indexOf(step.text, nextStart(name, at, step.text));
    }
    return reached;
  }
  for (const place of places) {
    const end = endOfPart(name, place);
    const slash = step.text.indexOf('/');
    // Within a part, a text with a slash can only stand where that slash is the end of the part.
    const at = slash === -1 ? name.indexOf(step.text, place) : end - slash;
    if (at < place || at > end || !name.startsWith(step.text, at)) continue;
    if (add(at)) break;
  }
  return reached;
}

/** Where another place in a later part can begin. */
function nextStart(name: string, at: number, text: string): number {
  if (text.includes('/')) return at + 1;
  return endOfPart(name, at + text.length) + 1;
}

/** Where the part that holds this place ends: at the next slash, or at the end of the name. */
function endOfPart(name: string, place: number): number {
  const slash = name.indexOf('/', place);
  return slash === -1 ? name.length : slash;
}
