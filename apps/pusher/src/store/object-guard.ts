import { relative } from 'node:path';
import type { Logger } from '@sluice/service-kit';
import { HttpError } from '../http/http-error.ts';
import type { RefCheck } from './find-lost-refs.ts';
import { packNames } from './list-packs.ts';

export interface ObjectGuardOptions {
  dataDir: string;
  log: Logger;
  /** Compares a repository's refs with its folder. */
  check: (repoId: string, folder: string) => Promise<RefCheck>;
  /** Told how many repositories are withheld, whenever that changes. */
  onCount: (withheld: number) => void;
  /** Monotonic milliseconds; replaced in tests. */
  now?: () => number;
}

/** What is known of a repository's objects. A hint: whatever it says is found out again from refs and disk. */
interface Finding extends RefCheck {
  /** The packs at the last look. */
  packs: ReadonlySet<string>;
  checkedAt: number;
}

/** How long a repository that had all its objects is taken to have them, while none of its packs is gone. */
const TRUST_MS = 10 * 60_000;
/** How often a repository that lacks some is looked at again. */
const RECHECK_MS = 2_000;
/** Repositories remembered; one that was forgotten is looked at again. */
const FINDINGS_MAX = 10_000;
/** One lost disk loses all its repositories; their number says as much as their names. */
const WITHHELD_LOGGED_MAX = 100;

/**
 * Lets nobody read or push a repository while a ref names an object that is not on this server's disk. Looks at the
 * refs' objects when it first meets a repository, when a pack is gone and when git stumbled; and every ten minutes, for
 * which nobody waits. In between, a request costs one listing of the packs. Nothing is stored: the objects are back when
 * they are back.
 */
export class ObjectGuard {
  readonly #options: ObjectGuardOptions;
  readonly #now: () => number;
  readonly #findings = new Map<string, Finding>();
  readonly #withheld = new Map<string, Finding>();
  readonly #checks = new Map<string, Promise<Finding>>();

  constructor(options: ObjectGuardOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
  }

  /** Whether a repository lacked objects when it was last looked at. */
  isWithheld(repoId: string): boolean {
    return this.#withheld.has(repoId);
  }

  /** What is missing and what to do, in a sentence for whoever asked; null: the object of every ref is there. */
  async judge(repoId: string, folder: string): Promise<string | null> {
    const finding = await this.#look(repoId, folder);
    if (finding.lost === 0) return null;
    return describeLoss(repoId, relative(this.#options.dataDir, folder), finding);
  }

  /** Throws a 503 with what {@link judge} says. */
  async require(repoId: string, folder: string): Promise<void> {
    const loss = await this.judge(repoId, folder);
    // Without "try again": this does not pass by itself.
    if (loss !== null) throw new HttpError(503, loss);
  }

  /** Git met something that it could not read: the next request looks again. */
  suspect(repoId: string): void {
    this.#findings.delete(repoId);
  }

  async #look(repoId: string, folder: string): Promise<Finding> {
    const withheld = this.#withheld.get(repoId);
    if (withheld !== undefined && this.#now() - withheld.checkedAt < RECHECK_MS) return withheld;
    const packs = await packNames(folder);
    const known = this.#findings.get(repoId);
    const check = (): Promise<Finding> => this.#checkOnce(repoId, folder, packs ?? new Set());
    if (known === undefined || packs === null || ![...known.packs].every((name) => packs.has(name)))
      return await check();
    known.packs = packs;
    // Nothing speaks for a loss, so nobody waits for this one; if it fails, the next request tries again.
    if (this.#now() - known.checkedAt >= TRUST_MS) check().catch(() => undefined);
    return known;
  }

  /** However many ask, there is one check at a time. */
  #checkOnce(repoId: string, folder: string, packs: ReadonlySet<string>): Promise<Finding> {
    const running = this.#checks.get(repoId);
    if (running !== undefined) return running;
    const check = this.#check(repoId, folder, packs).finally(() => this.#checks.delete(repoId));
    this.#checks.set(repoId, check);
    return check;
  }

  async #check(repoId: string, folder: string, packs: ReadonlySet<string>): Promise<Finding> {
    const checkedAt = this.#now();
    const finding = { ...(await this.#options.check(repoId, folder)), packs, checkedAt };
    if (finding.lost > 0) this.#withhold(repoId, finding);
    else this.#release(repoId, finding);
    return finding;
  }

  #withhold(repoId: string, finding: Finding): void {
    const isNew = !this.#withheld.has(repoId);
    this.#withheld.set(repoId, finding);
    this.#findings.delete(repoId);
    if (!isNew) return;
    this.#options.onCount(this.#withheld.size);
    if (this.#withheld.size > WITHHELD_LOGGED_MAX) return;
    const { refs, lost, example } = finding;
    this.#options.log.error({ event: 'objects_lost', repo_id: repoId, refs, lost, example });
  }

  #release(repoId: string, finding: Finding): void {
    this.#findings.delete(repoId);
    if (this.#findings.size >= FINDINGS_MAX) this.#findings.delete(this.#findings.keys().next().value!);
    this.#findings.set(repoId, finding);
    if (!this.#withheld.delete(repoId)) return;
    this.#options.onCount(this.#withheld.size);
    this.#options.log.info({ event: 'objects_back', repo_id: repoId, refs: finding.refs });
  }
}

function describeLoss(repoId: string, path: string, { refs, lost, example }: RefCheck): string {
  const which = refs === 1 ? 'its only ref' : `${lost} of its ${refs} refs`;
  const names = lost === 1 ? 'names an object that is' : 'name objects that are';
  const such = `${lost === 1 ? '' : 'such as '}${example?.name} ${example?.oid.slice(0, 12)}`;
  return `${repoId} is withheld: ${which} ${names} not on this server's disk, ${such}. The refs are safe in the database. Bring ${path} of the data folder back from a backup or a clone (docs/operating.md); from then on it is served again`;
}
