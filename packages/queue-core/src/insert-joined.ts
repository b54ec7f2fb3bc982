import { isOurPool, sqlState, type DB } from '@sluice/db';
import type { Kysely } from 'kysely';
import { AsyncResource } from 'node:async_hooks';
import { insertEffect } from './insert-effect.ts';
import { insertUnlimited } from './insert-effects.ts';
import { toldIds } from './neighbours.ts';
import type { NewEffect } from './new-effect.ts';

/** Statements of one pool under way at once: a second, so that who meets one other caller waits for nobody. */
const STATEMENTS_MAX = 2;
/** A statement that takes longer may never be answered, as on a dead connection: the next ones do not wait for it. */
const UNDER_WAY_MS_MAX = 15_000;
/** Most effects of a statement, and most characters of their payloads. */
const EFFECTS_MAX = 500;
const CHARACTERS_MAX = 4 * 1024 * 1024;

interface Call {
  effect: NewEffect;
  resolve: (id: bigint | undefined) => void;
  reject: (error: unknown) => void;
  /** What the caller was doing when it called: what runs in its scope is a part of that. */
  context: AsyncResource;
}

/** The calls of one pool. */
interface Line {
  waiting: Call[];
  underWay: number;
  isDue: boolean;
}

const lines = new WeakMap<object, Line>();

/**
 * As {@link insertEffect}; concurrent calls share a statement and its commit. Those of one turn of the event loop go
 * together, and so do those that wait while {@link STATEMENTS_MAX} are under way; a lone one goes out at once, and no
 * call waits for a clock. What the database refuses of one fails nobody else. Only calls on a pool of ours are joined, and
 * only without a dedup key: that may have to wait for another transaction.
 */
export async function insertJoined(db: Kysely<DB>, effect: NewEffect): Promise<bigint | undefined> {
  if (!isOurPool(db) || effect.dedupKey !== undefined) return await insertEffect(db, effect);
  const pool = db.getExecutor();
  let line = lines.get(pool);
  if (line === undefined) lines.set(pool, (line = { waiting: [], underWay: 0, isDue: false }));
  const { promise, resolve, reject } = Promise.withResolvers<bigint | undefined>();
  line.waiting.push({ effect: copied(effect), resolve, reject, context: new AsyncResource('SluiceEnqueue') });
  sendSoon(db, line);
  return await promise;
}

/** When everything that can run now has run: callers that an answer resumes may call again. */
function sendSoon(db: Kysely<DB>, line: Line): void {
  if (line.isDue || line.underWay >= STATEMENTS_MAX) return;
  line.isDue = true;
  process.nextTick(() => {
    line.isDue = false;
    while (line.waiting.length > 0 && line.underWay < STATEMENTS_MAX) sendNext(db, line);
  });
}

function sendNext(db: Kysely<DB>, line: Line): void {
  let characters = 0;
  const end = line.waiting.findIndex(({ effect }, index) => {
    characters += effect.payload.length;
    return index === EFFECTS_MAX || (index > 0 && characters > CHARACTERS_MAX);
  });
  const calls = line.waiting.splice(0, end === -1 ? line.waiting.length : end);
  const leave = enter(db, line);
  void calls[0]!.context.runInAsyncScope(() => send(db, line, calls)).then(leave);
}

/** Counts one more as under way, until what is returned is called, or {@link UNDER_WAY_MS_MAX} have passed. */
function enter(db: Kysely<DB>, line: Line): () => void {
  line.underWay += 1;
  let isIn = true;
  const leave = () => {
    if (!isIn) return;
    isIn = false;
    clearTimeout(timer);
    line.underWay -= 1;
    if (line.waiting.length > 0) sendSoon(db, line);
  };
  const timer = setTimeout(leave, UNDER_WAY_MS_MAX).unref();
  return leave;
}

async function send(db: Kysely<DB>, line: Line, calls: readonly Call[]): Promise<void> {
  const effects = calls.map((call) => call.effect);
  const told = toldIds(db, effects);
  try {
    const ids =
      calls.length === 1
        ? [await insertEffect(db, effects[0]!, told)]
        : await insertUnlimited(db, effects, told);
    for (const [index, call] of calls.entries()) call.resolve(ids[index]);
  } catch (error) {
    const isRefused = isOfOne(error);
    for (const { context, effect, resolve, reject } of calls) {
      if (isRefused && calls.length > 1)
        context.runInAsyncScope(() => insertEffect(db, effect)).then(resolve, reject);
      else reject(error);
    }
    // Getting no connection may have taken as long as it may: who waited meanwhile does not wait for others as well.
    while (!isRefused && line.waiting.length > 0) sendNext(db, line);
  }
}

/** connection_exception, insufficient_resources, operator intervention that ends the session, system_error, internal. */
const OF_THE_SERVER = /^(08|53|57P|58|XX)/;

/**
 * Whether PostgreSQL refused the statement because of one of its effects, and nothing was written. Where a connection
 * is lost, the statement may have been committed: as with a call that is alone, nobody knows, and nobody repeats it.
 */
function isOfOne(error: unknown): boolean {
  const state = sqlState(error);
  return state !== undefined && !OF_THE_SERVER.test(state);
}

/** As it is now, when it was checked: until it is sent, the caller may change its object. */
function copied(effect: NewEffect): NewEffect {
  const { repoId, payload, name, priority, delayMs, runAt, maxAttempts, concurrencyGroup, pushId } = effect;
  const at = runAt === undefined ? undefined : new Date(runAt);
  const copy: { [Field in keyof NewEffect]: NewEffect[Field] | undefined } = {
    repoId,
    payload,
    name,
    priority,
    delayMs,
    runAt: at,
    maxAttempts,
    concurrencyGroup,
    pushId,
  };
  return copy as NewEffect;
}
