import type { DB } from '@sluice/db';
import {
  CONFIG_REF,
  createPolicy,
  MEMBER_FILE,
  MEMBER_PREFIX,
  parseMember,
  parsePolicy,
  POLICY_FILE,
  type Member,
  type Policy,
} from '@sluice/effect-spec';
import type { LoggedPush, Oid } from '@sluice/ref-store';
import type { Kysely } from 'kysely';
import type { RepoObjects } from '../rebuild/repo-objects.ts';

/** Who the members of a repository were at a place in its log, and what its policy said. */
export interface Governed {
  members: ReadonlyMap<string, Member>;
  policy: Policy;
}

const BYTES_MAX = 64 * 1024;

/** Follows members and policy through the log. */
export class PastGovernance {
  readonly #objects: RepoObjects;
  /** Commits of the members and of the policy, by ref, as the pushes so far left them. */
  readonly #refs = new Map<string, Oid>();
  /** By commit; null: it cannot be read. */
  readonly #members = new Map<Oid, Member | null>();
  readonly #policies = new Map<Oid, Policy | null>();
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
    const config = this.#refs.get(CONFIG_REF);
    const members = [...this.#refs].filter(([ref]) => ref !== CONFIG_REF);
    await this.#load(
      db,
      MEMBER_FILE,
      members.map(([, oid]) => oid),
    );
    if (config !== undefined) await this.#load(db, POLICY_FILE, [config]);
    const policy = config === undefined ? createPolicy([]) : this.#policies.get(config)!;
    const known = new Map<string, Member>();
    for (const [ref, oid] of members) {
      const member = this.#members.get(oid)!;
      if (member === null) return 'unread';
      known.set(ref.slice(MEMBER_PREFIX.length), member);
    }
    return policy === null ? 'unread' : { members: known, policy };
  }

  async #load(db: Kysely<DB>, name: string, oids: readonly Oid[]): Promise<void> {
    const isPolicy = name === POLICY_FILE;
    const known = isPolicy ? this.#policies : this.#members;
    const commits = oids.filter((oid) => !known.has(oid));
    if (commits.length === 0) return;
    const files = await this.#objects.files(db, { commits, name, bytesMax: BYTES_MAX });
    for (const oid of commits) {
      const file = files.get(oid) ?? '';
      if (isPolicy) this.#policies.set(oid, policyIn(file));
      else this.#members.set(oid, memberIn(file));
    }
  }
}

export function isGoverning(name: string): boolean {
  return name === CONFIG_REF || name.startsWith(MEMBER_PREFIX);
}

function policyIn(file: string | Buffer): Policy | null {
  const parsed = parsePolicy(file);
  return 'policy' in parsed ? parsed.policy : null;
}

function memberIn(file: string | Buffer): Member | null {
  const parsed = parseMember(file);
  return 'member' in parsed ? parsed.member : null;
}
