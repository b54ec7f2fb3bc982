import { createHash } from 'node:crypto';
import type { DB } from '@sluice/db';
import {
  composeGoverned,
  createPolicy,
  governingFile,
  isEffectName,
  MEMBER_PREFIX,
  parseGoverning,
  type Governing,
  type Member,
  type Policy,
} from '@sluice/effect-spec';
import type { RefRow } from '@sluice/ref-store';
import type { Kysely } from 'kysely';
import type { LookUpOptions } from '../git/look-up-objects.ts';
import { CommitFileReader, type Meaningless } from './commit-file-reader.ts';
import { readGoverningRefs, type GoverningRefs } from './read-governing-refs.ts';

/** Who may push what to a repository, and who may sign it. */
export interface Governance {
  /** By name; null: there never were any, and nobody looks at signatures. */
  members: ReadonlyMap<string, Member> | null;
  policy: Policy;
  /** What of it cannot be understood. While there is something, nobody can rely on the rest. */
  problem: string | null;
}

/** What governs a repository that says nothing about it. */
export const UNGOVERNED: Governance = { members: null, policy: createPolicy([]), problem: null };

type Git = Omit<LookUpOptions, 'withContent'>;

/** Most members that a repository may have. */
export const MEMBERS_MAX = 10_000;

/**
 * Most that are read: before the members of a repository were counted, one push could add as many as there may be to as
 * many as there may be. Members are never deleted, so nobody could make them fewer.
 */
export const MEMBERS_READ_MAX = 2 * MEMBERS_MAX;

/** Most bytes that their files may have together: what several repositories have is remembered at once. */
export const MEMBERS_BYTES_MAX = 8 * 1024 * 1024;

/** Repositories whose members and policy are in memory as a whole. */
const KNOWN_MAX = 8;

/** What a file says, and how long it is. */
type Loaded = Governing & { bytes: number };

/**
 * Reads what governs a repository: once for each state of its refs, however many ask at once and however little of the
 * files is remembered.
 */
export class GovernanceReader {
  readonly #files: CommitFileReader<Loaded>;
  /** By state. The one used last comes last. */
  readonly #known = new Map<string, Promise<Governance>>();

  constructor(options: { knownBytesMax?: number } = {}) {
    this.#files = new CommitFileReader<Loaded>((file, content) => {
      const says = parseGoverning(file, content);
      return 'problem' in says ? says : { ...says, bytes: content.length };
    }, options);
  }

  async read(db: Kysely<DB>, repoId: string, git: Git): Promise<Governance> {
    return await this.of(await readGoverningRefs(db, { repoId, membersMax: MEMBERS_READ_MAX }), git);
  }

  /** What these refs hold, one more than {@link MEMBERS_READ_MAX} members if there are so many. */
  async of(refs: GoverningRefs, git: Git): Promise<Governance> {
    if (refs.config === null && !refs.hadMembers) return UNGOVERNED;
    const state = stateOf(refs, git);
    const reading = this.#known.get(state) ?? this.#compose(refs, git);
    this.#keep(state, reading);
    try {
      const governance = await reading;
      // Objects can be missing for a while.
      if (governance.problem !== null) this.#known.delete(state);
      return governance;
    } catch (error) {
      this.#known.delete(state);
      throw error;
    }
  }

  #keep(state: string, reading: Promise<Governance>): void {
    this.#known.delete(state);
    this.#known.set(state, reading);
    if (this.#known.size > KNOWN_MAX) this.#known.delete(this.#known.keys().next().value!);
  }

  async #compose({ config, members, hadMembers }: GoverningRefs, git: Git): Promise<Governance> {
    const broken = (problem: string): Governance => ({
      ...UNGOVERNED,
      members: hadMembers ? new Map() : null,
      problem,
    });
    if (hadMembers && members.length === 0) return broken(`nothing is left below ${MEMBER_PREFIX}`);
    if (members.length > MEMBERS_READ_MAX) return broken(`there are more than ${MEMBERS_READ_MAX} members`);
    const wanted = config === null ? members : [...members, config];
    const loaded = await this.load(wanted, git);
    const governed = composeGoverned(wanted.map(({ name }) => [name, loaded.get(name)!]));
    if ('problem' in governed) return broken(governed.problem);
    const { members: known, policy } = governed;
    return { members: hadMembers ? known : null, policy, problem: null };
  }

  /** How long the files of these are together; what cannot be read counts for nothing. */
  async bytesOf(refs: readonly RefRow[], git: Git): Promise<number> {
    const loaded = await this.load(refs, git);
    return [...loaded.values()].reduce((sum, one) => sum + ('problem' in one ? 0 : one.bytes), 0);
  }

  /** What members and policies hold, by the names of their refs; other refs are not asked for. */
  async load(refs: readonly RefRow[], git: Git): Promise<Map<string, Loaded | Meaningless>> {
    const loaded = await this.#files.read(
      refs.map(({ name, oid }) => ({ commit: oid, file: governingFile(name) })),
      git,
    );
    return new Map(refs.map(({ name }, index) => [name, loaded[index]!]));
  }
}

/** Names what refs say, as long as no object is missing: a commit never changes. */
function stateOf(refs: GoverningRefs, { folder }: Git): string {
  return createHash('sha256')
    .update(JSON.stringify([folder, refs]))
    .digest('base64');
}

/** Without its ref nobody could tell who signed what, and somebody else could come back under the name. */
export const MEMBER_STAYS = 'a member is not deleted: push a member.yaml with "revoked: true"';

/** What is wrong with the name of a member's ref. */
export function memberNameFault(name: string): string | null {
  if (!name.startsWith(MEMBER_PREFIX) || isEffectName(name.slice(MEMBER_PREFIX.length))) return null;
  return `expected ${MEMBER_PREFIX}<name> with one segment of at most 100 letters, digits, dots, dashes and underscores`;
}
