import type { DB } from '@sluice/db';
import { MEMBER_PREFIX, RESULT_PREFIX } from '@sluice/effect-spec';
import {
  readRefsExcept,
  readRefsSince,
  readRepo,
  type ObjectFormat,
  type RefChange,
  type RefRow,
  type RepoState,
} from '@sluice/ref-store';
import type { Kysely } from 'kysely';
import { encodePkt } from '../wire/pkt-line.ts';
import { changeLines } from './ref-lines.ts';

/** What a push is shown of a repository. */
export interface Advertised {
  state: RepoState;
  /** Whether signatures count. */
  hasMembers: boolean;
  /** A packet `<oid> <name>` for each ref, results left out, in byte order of the names. */
  lines: Buffer;
}

interface Known {
  state: RepoState;
  lines: Buffer;
}

/** Refs of some ninety repositories with ten thousand refs each. */
const BYTES_MAX = 64 * 1024 * 1024;
/** What an entry takes beside its lines. */
const ENTRY_BYTES = 1024;

/**
 * The refs that pushes are shown, kept in memory for the repositories that were pushed to lately. Each read asks the
 * database in one statement what changed since, so the answer is never older than the question, and a repository that
 * nobody pushed to costs no look at its refs, however many there are. What is kept is a copy that the log vouches for;
 * where the log does not, all refs are read again.
 */
export class AdvertisedRefs {
  readonly #db: Kysely<DB>;
  readonly #bytesMax: number;
  /** The one used last comes last. */
  readonly #known = new Map<string, Known>();
  #bytes = 0;

  constructor(db: Kysely<DB>, bytesMax = BYTES_MAX) {
    this.#db = db;
    this.#bytesMax = bytesMax;
  }

  /** The refs as they are now; undefined if there is no such repository. */
  async read(repoId: string): Promise<Advertised | undefined> {
    const known = this.#known.get(repoId);
    const since = known?.state ?? null;
    const found = await readRefsSince(this.#db, {
      repoId,
      since,
      except: RESULT_PREFIX,
      sought: MEMBER_PREFIX,
    });
    if (found === undefined) return undefined;
    const { isFound: hasMembers, changes } = found;
    const current =
      known === undefined || changes === null
        ? await this.#readAll(repoId)
        : { state: found.state, lines: withChanges(known.lines, found.state.objectFormat, changes) };
    if (current === undefined) return undefined;
    this.#keep(repoId, current);
    return { ...current, hasMembers };
  }

  async #readAll(repoId: string): Promise<Known | undefined> {
    const snapshot = this.#db.transaction().setIsolationLevel('repeatable read').setAccessMode('read only');
    return await snapshot.execute(async (trx) => {
      const state = await readRepo(trx, repoId);
      if (state === undefined) return undefined;
      const refs = await readRefsExcept(trx, repoId, RESULT_PREFIX);
      return { state, lines: Buffer.concat(refs.map(packetOf)) };
    });
  }

  #keep(repoId: string, entry: Known): void {
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

function sizeOf({ lines }: Known): number {
  return lines.length + ENTRY_BYTES;
}

function withChanges(lines: Buffer, format: ObjectFormat, changes: readonly RefChange[]): Buffer {
  if (changes.length === 0) return lines;
  return changeLines(
    lines,
    nameAt(format),
    changes.map(({ name, oid }) => ({
      name: Buffer.from(name),
      line: oid === null ? null : packetOf({ name, oid }),
    })),
  );
}

function packetOf({ name, oid }: RefRow): Buffer {
  return encodePkt(`${oid} ${name}\n`);
}

/** After the packet's length, the OID and a space. */
function nameAt(format: ObjectFormat): number {
  return format === 'sha1' ? 45 : 69;
}
