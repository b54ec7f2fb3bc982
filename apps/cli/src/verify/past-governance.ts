import type { DB } from '@sluice/db';
import {
  composeGoverned,
  CONFIG_REF,
  DEFINITION_LIMITS,
  governingFile,
  isGoverning,
  parseGoverning,
  type Governed,
} from '@sluice/effect-spec';
import type { LoggedPush, Oid } from '@sluice/ref-store';
import type { Kysely } from 'kysely';
import type { RepoObjects } from '../rebuild/repo-objects.ts';

/** Follows members and policy through the log: who the members were at a place in it, and what the policy said. */
export class PastGovernance {
  readonly #objects: RepoObjects;
  /** Commits of the members and of the policy, by ref, as the pushes so far left them. */
  readonly #refs = new Map<string, Oid>();
  /** What these commits say, by file and commit. */
  readonly #known = new Map<string, ReturnType<typeof parseGoverning>>();
  /** Undefined: not asked for since it changed. */
  #current: Governed | 'unread' | undefined;

  constructor(objects: RepoObjects) {
    this.#objects = objects;
  }

  apply(edits: LoggedPush['edits']): void {
    for (const { name, newOid } of edits) {
      if (!isGoverning(name)) continue;
      if (newOid === null) this.#refs.delete(name);
      else this.#refs.set(name, newOid);
      this.#current = undefined;
    }
  }

  get hasMembers(): boolean {
    return this.#refs.size > (this.#refs.has(CONFIG_REF) ? 1 : 0);
  }

  /** What the pushes so far made of it; null: some of that cannot be read. */
  async read(db: Kysely<DB>): Promise<Governed | null> {
    this.#current ??= await this.#read(db);
    return this.#current === 'unread' ? null : this.#current;
  }

  async #read(db: Kysely<DB>): Promise<Governed | 'unread'> {
    const refs = [...this.#refs];
    const unread = refs.filter(([ref, oid]) => !this.#known.has(keyOf(ref, oid)));
    for (const [name, some] of Map.groupBy(unread, ([ref]) => governingFile(ref))) {
      const commits = some.map(([, oid]) => oid);
      const files = await this.#objects.files(db, { commits, name, bytesMax: DEFINITION_LIMITS.bytes });
      for (const [ref, oid] of some)
        this.#known.set(keyOf(ref, oid), parseGoverning(name, files.get(oid) ?? ''));
    }
    const governed = composeGoverned(refs.map(([ref, oid]) => [ref, this.#known.get(keyOf(ref, oid))!]));
    return 'problem' in governed ? 'unread' : governed;
  }
}

/** A commit may hold both files. */
function keyOf(ref: string, oid: Oid): string {
  return `${oid}:${governingFile(ref)}`;
}
