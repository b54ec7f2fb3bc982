import type { DB } from '@sluice/db';
import {
  CONFIG_REF,
  isEffectName,
  MEMBER_FILE,
  MEMBER_PREFIX,
  parseMember,
  parsePolicy,
  POLICY_FILE,
  type Member,
  type Policy,
  type Problem,
} from '@sluice/effect-spec';
import { readRefs, type RefRow } from '@sluice/ref-store';
import type { Kysely } from 'kysely';
import type { LookUpOptions } from '../git/look-up-objects.ts';
import { readCommitFiles } from './read-commit-file.ts';

/** Who may sign in a repository, and what has to be signed. */
export interface Governance {
  /** By name. */
  members: ReadonlyMap<string, Member>;
  policy: Policy | null;
  /** What of it cannot be understood. While there is something, nobody can rely on the rest. */
  problem: string | null;
}

type Git = Omit<LookUpOptions, 'withContent'>;
type Loaded = { member: Member } | { policy: Policy } | { problem: string };

/** Most members that a repository may have. */
const MEMBERS_MAX = 10_000;
const ENTRIES_MAX = 20_000;

/** Reads what governs a repository, and remembers the commits: those never change. */
export class GovernanceReader {
  readonly #known = new Map<string, Loaded>();

  /** Null: the repository has no members, and so no rules about signatures. */
  async read(db: Kysely<DB>, repoId: string, git: Git): Promise<Governance | null> {
    const refs = await readRefs(db, repoId, { prefix: MEMBER_PREFIX });
    if (refs.length === 0) return null;
    if (refs.length > MEMBERS_MAX) {
      return { members: new Map(), policy: null, problem: `there are more than ${MEMBERS_MAX} members` };
    }
    const config = await readRefs(db, repoId, { prefix: CONFIG_REF });
    const wanted = [...refs, ...config.filter(({ name }) => name === CONFIG_REF)];
    const loaded = await this.load(wanted, git);
    const members = new Map<string, Member>();
    let policy: Policy | null = null;
    let problem: string | null = null;
    for (const { name } of wanted) {
      const one = loaded.get(name)!;
      if ('problem' in one) problem ??= `${name}: ${one.problem}`;
      else if ('policy' in one) ({ policy } = one);
      else members.set(name.slice(MEMBER_PREFIX.length), one.member);
    }
    return { members, policy, problem };
  }

  /** What members and policies hold, by the names of their refs; other refs are not asked for. */
  async load(refs: readonly RefRow[], git: Git): Promise<Map<string, Loaded>> {
    const missing = refs.filter((ref) => !this.#known.has(keyOf(ref)));
    const files = await readCommitFiles(
      missing.map(({ name, oid }) => ({ commit: oid, file: fileOf(name) })),
      git,
    );
    const loaded = new Map<string, Loaded>();
    for (const [index, ref] of missing.entries()) {
      const file = files[index]!;
      const one = 'problem' in file ? file : parse(ref.name, file.content);
      loaded.set(ref.name, one);
      if ('problem' in one) continue;
      if (this.#known.size >= ENTRIES_MAX) this.#known.delete(this.#known.keys().next().value!);
      this.#known.set(keyOf(ref), one);
    }
    for (const ref of refs) if (!loaded.has(ref.name)) loaded.set(ref.name, this.#known.get(keyOf(ref))!);
    return loaded;
  }
}

/** Whether signatures count in a repository. */
export async function hasMembers(db: Kysely<DB>, repoId: string): Promise<boolean> {
  const found = await db
    .selectFrom('ref')
    .select('name')
    .where('repo_id', '=', repoId)
    .where('name', '>=', MEMBER_PREFIX)
    // The slash at the end of the prefix, and what comes after a slash.
    .where('name', '<', `${MEMBER_PREFIX.slice(0, -1)}0`)
    .limit(1)
    .executeTakeFirst();
  return found !== undefined;
}

/** Whether a ref holds something that governs pushes. */
export function isGoverning(name: string): boolean {
  return name === CONFIG_REF || name.startsWith(MEMBER_PREFIX);
}

/** What is wrong with the name of a member's ref. */
export function memberNameFault(name: string): string | null {
  if (!name.startsWith(MEMBER_PREFIX) || isEffectName(name.slice(MEMBER_PREFIX.length))) return null;
  return `expected ${MEMBER_PREFIX}<name> with one segment of at most 100 letters, digits, dots, dashes and underscores`;
}

function keyOf({ name, oid }: RefRow): string {
  return `${fileOf(name)} ${oid}`;
}

function fileOf(name: string): string {
  return name === CONFIG_REF ? POLICY_FILE : MEMBER_FILE;
}

function parse(name: string, content: Buffer): Loaded {
  const parsed = name === CONFIG_REF ? parsePolicy(content) : parseMember(content);
  return 'problems' in parsed ? { problem: describe(fileOf(name), parsed.problems) } : parsed;
}

function describe(file: string, problems: readonly Problem[]): string {
  const [first] = problems;
  const more = problems.length > 1 ? `; and ${problems.length - 1} more` : '';
  return `${file}:${first?.line}:${first?.column}: ${first?.message}${more}`;
}
