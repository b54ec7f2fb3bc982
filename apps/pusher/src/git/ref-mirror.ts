import type { DB } from '@sluice/db';
import { MEMBER_PREFIX, RESULT_PREFIX } from '@sluice/effect-spec';
import { readRefsSince, type RepoState } from '@sluice/ref-store';
import type { Kysely } from 'kysely';
import { KeyedTurns } from '../keyed-turns.ts';
import { changeRefs } from './packed-refs.ts';
import { readAllRefs, type RefLines } from './read-all-refs.ts';

/** What a push is shown of a repository: its refs without results, in the same buffer as long as they are the same. */
export interface ShownRefs extends RefLines {
  /** Whether signatures count. */
  hasMembers: boolean;
}

/** Refs of a hundred repositories with ten thousand refs each. */
const BYTES_MAX = 64 * 1024 * 1024;
/** What an entry takes beside its lines. */
const ENTRY_BYTES = 1024;

/**
 * The refs of the repositories that were used lately, kept in memory. Each read asks the database in one statement what
 * changed since, so the answer is never older than the question, and a repository that nobody pushed to costs no look at
 * its refs, however many there are. What is kept is a copy that the log vouches for; where the log does not, all refs are
 * read again.
 */
export class RefMirror {
  readonly #db: Kysely<DB>;
  readonly #bytesMax: number;
  /** The one used last comes last. */
  readonly #known = new Map<string, RefLines>();
  readonly #turns = new KeyedTurns();
  #bytes = 0;

  constructor(db: Kysely<DB>, bytesMax = BYTES_MAX) {
    this.#db = db;
    this.#bytesMax = bytesMax;
  }

  /** The refs as they are now; undefined if there is no such repository. */
  async read(repoId: string): Promise<ShownRefs | undefined> {
    const known = this.#known.get(repoId);
    const found = await this.#catchUp(repoId, known);
    if (found === undefined) return undefined;
    const { current, hasMembers } = found;
    const refs = current ?? (await this.#turns.run(repoId, () => this.#readInTurn(repoId, known)));
    return refs === undefined ? undefined : { ...refs, hasMembers };
  }

  /** What is known with what changed since, which is kept; `current` is null where the log does not tell. */
  async #catchUp(
    repoId: string,
    known: RefLines | undefined,
  ): Promise<{ current: RefLines | null; hasMembers: boolean } | undefined> {
    const found = await readRefsSince(this.#db, {
      repoId,
      since: known?.state ?? null,
      except: RESULT_PREFIX,
      sought: MEMBER_PREFIX,
    });
    if (found === undefined) return undefined;
    const { state, isFound: hasMembers, changes } = found;
    if (known === undefined || changes === null) return { current: null, hasMembers };
    const latest = this.#known.get(repoId);
    // Of many who ask at once after a push, the first copies the lines.
    const lines =
      latest !== undefined && isSame(latest.state, state)
        ? latest.lines
        : changeRefs(known.lines, state.objectFormat, changes);
    const current = { state, lines };
    this.#keep(repoId, current);
    return { current, hasMembers };
  }

  /** One reads all refs, and who came meanwhile takes those and what changed since: many at once would be many copies. */
  async #readInTurn(repoId: string, known: RefLines | undefined): Promise<RefLines | undefined> {
    const later = this.#known.get(repoId);
    const found = later === undefined || later === known ? undefined : await this.#catchUp(repoId, later);
    const current = found?.current;
    if (current !== undefined && current !== null) return current;
    const refs = await readAllRefs(this.#db, repoId, { except: RESULT_PREFIX });
    if (refs !== undefined) this.#keep(repoId, refs);
    return refs;
  }

  #keep(repoId: string, entry: RefLines): void {
    this.#forget(repoId);
    // Else it would take the place of everybody else's.
    if (sizeOf(entry) > this.#bytesMax / 2) return;
    this.#known.set(repoId, entry);
    this.#bytes += sizeOf(entry);
    for (const oldest of this.#known.keys()) {
      if (this.#bytes <= this.#bytesMax) break;
      this.#forget(oldest);
    }
  }

  #forget(repoId: string): void {
    const entry = this.#known.get(repoId);
    if (entry === undefined) return;
    this.#known.delete(repoId);
    this.#bytes -= sizeOf(entry);
  }
}

/** The push id too: after a failover a version may be used twice. */
function isSame(one: RepoState, other: RepoState): boolean {
  return one.refsVersion === other.refsVersion && one.opTip === other.opTip;
}

function sizeOf({ lines }: RefLines): number {
  return lines.length + ENTRY_BYTES;
}
