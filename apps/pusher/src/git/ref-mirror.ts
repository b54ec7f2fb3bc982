import type { DB } from '@sluice/db';
import { MEMBER_PREFIX, RESULT_PREFIX } from '@sluice/effect-spec';
import { readRefsExcept, readRefsSince, readRepo, type RepoState } from '@sluice/ref-store';
import type { Kysely } from 'kysely';
import { changeRefs, linesOf } from './packed-refs.ts';

/** The refs of a repository without its results, as they were at one instant. */
export interface MirroredRefs {
  state: RepoState;
  /** A line `<oid> <name>` for each ref, in byte order of the names; the same buffer as long as they are the same. */
  lines: Buffer;
}

/** What a push is shown of a repository. */
export interface ShownRefs extends MirroredRefs {
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
  readonly #known = new Map<string, MirroredRefs>();
  #bytes = 0;

  constructor(db: Kysely<DB>, bytesMax = BYTES_MAX) {
    this.#db = db;
    this.#bytesMax = bytesMax;
  }

  /** The refs as they are now; undefined if there is no such repository. */
  async read(repoId: string): Promise<ShownRefs | undefined> {
    const known = this.#known.get(repoId);
    const found = await readRefsSince(this.#db, {
      repoId,
      since: known?.state ?? null,
      except: RESULT_PREFIX,
      sought: MEMBER_PREFIX,
    });
    if (found === undefined) return undefined;
    const { state, isFound: hasMembers, changes } = found;
    const current =
      known === undefined || changes === null
        ? await this.#readAll(repoId)
        : { state, lines: changeRefs(known.lines, state.objectFormat, changes) };
    if (current === undefined) return undefined;
    this.#keep(repoId, current);
    return { ...current, hasMembers };
  }

  async #readAll(repoId: string): Promise<MirroredRefs | undefined> {
    const snapshot = this.#db.transaction().setIsolationLevel('repeatable read').setAccessMode('read only');
    return await snapshot.execute(async (trx) => {
      const state = await readRepo(trx, repoId);
      if (state === undefined) return undefined;
      return { state, lines: linesOf(await readRefsExcept(trx, repoId, RESULT_PREFIX)) };
    });
  }

  #keep(repoId: string, entry: MirroredRefs): void {
    this.#forget(repoId);
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

function sizeOf({ lines }: MirroredRefs): number {
  return lines.length + ENTRY_BYTES;
}
