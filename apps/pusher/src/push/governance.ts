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

/** Reads what governs a repository. */
export class GovernanceReader {
  readonly #files = new CommitFileReader<Governing>(parseGoverning);

  async read(db: Kysely<DB>, repoId: string, git: Git): Promise<Governance> {
    return await this.of(await readGoverningRefs(db, { repoId, membersMax: MEMBERS_MAX }), git);
  }

  /** What these refs hold, one more than {@link MEMBERS_MAX} members if there are so many. */
  async of({ config, members, hadMembers }: GoverningRefs, git: Git): Promise<Governance> {
    if (config === null && !hadMembers) return UNGOVERNED;
    const broken = (problem: string): Governance => ({
      ...UNGOVERNED,
      members: hadMembers ? new Map() : null,
      problem,
    });
    if (hadMembers && members.length === 0) return broken(`nothing is left below ${MEMBER_PREFIX}`);
    if (members.length > MEMBERS_MAX) return broken(`there are more than ${MEMBERS_MAX} members`);
    const wanted = config === null ? members : [...members, config];
    const loaded = await this.load(wanted, git);
    const governed = composeGoverned(wanted.map(({ name }) => [name, loaded.get(name)!]));
    if ('problem' in governed) return broken(governed.problem);
    const { members: known, policy } = governed;
    return { members: hadMembers ? known : null, policy, problem: null };
  }

  /** What members and policies hold, by the names of their refs; other refs are not asked for. */
  async load(refs: readonly RefRow[], git: Git): Promise<Map<string, Governing | Meaningless>> {
    const loaded = await this.#files.read(
      refs.map(({ name, oid }) => ({ commit: oid, file: governingFile(name) })),
      git,
    );
    return new Map(refs.map(({ name }, index) => [name, loaded[index]!]));
  }
}

/** Without its ref nobody could tell who signed what, and somebody else could come back under the name. */
export const MEMBER_STAYS = 'a member is not deleted: push a member.yaml with "revoked: true"';

/** What is wrong with the name of a member's ref. */
export function memberNameFault(name: string): string | null {
  if (!name.startsWith(MEMBER_PREFIX) || isEffectName(name.slice(MEMBER_PREFIX.length))) return null;
  return `expected ${MEMBER_PREFIX}<name> with one segment of at most 100 letters, digits, dots, dashes and underscores`;
}
