import { relative } from 'node:path';
import type { Logger } from '@sluice/service-kit';
import { HttpError } from '../http-error.ts';
import type { RefCheck } from './find-lost-refs.ts';
import { HistoryWalks } from './history-walks.ts';
import { packNames } from './list-packs.ts';
import { maintenanceMark } from './maintenance-marks.ts';

export interface ObjectGuardOptions {
  dataDir: string;
  log: Logger;
  /** Compares a repository's refs with its folder. */
  check: (repoId: string, folder: string) => Promise<RefCheck>;
  /** Walks from the refs to everything that they reach; returns what is missing, null: nothing. */
  walk: (repoId: string, folder: string, signal: AbortSignal) => Promise<string | null>;
  /** Told how many repositories are withheld, whenever that changes. */
  onCount: (withheld: number) => void;
  /** Monotonic milliseconds; replaced in tests. */
  now?: () => number;
}

/** What is known of a repository's objects. A hint: whatever it says is found out again from refs and disk. */
interface Finding extends RefCheck {
  /** The packs at the last look. */
  packs: ReadonlySet<string>;
  /** Of the last maintenance when the objects were looked for. */
  mark: string | null;
  checkedAt: number;
  /** What the refs reach and git cannot find; null: nothing, as far as is known. */
  gap: string | null;
}

/** How long a repository that had all its objects is taken to have them, while none of its packs is gone. */
const TRUST_MS = 10 * 60_000;
/** Git stumbles as well over a client that asks for what never was. */
const SUSPECT_EVERY_MS = 10_000;
/** How often a repository that lacks some is looked at again. */
const RECHECK_MS = 2_000;
/** Repositories remembered; one that was forgotten is looked at again. */
const FINDINGS_MAX = 10_000;
/** Each holds one of the pusher's database connections for as long as git takes to look through all refs. */
const CHECKS_AT_ONCE_MAX = 2;
/** One lost disk loses all its repositories; their number says as much as their names. */
const WITHHELD_LOGGED_MAX = 100;

/**
 * Lets nobody read or push a repository while a ref names an object that is not on this server's disk. Looks at the
 * refs' objects when it first meets a repository, when a pack is gone and when git stumbled; and every ten minutes, for
 * which nobody waits. In between, a request costs one listing of the packs. Where git stumbled, or a pack is gone that
 * maintenance has not taken, it also has everything walked through that the refs reach; until that ends, the repository
 * is served. Nothing is stored: the objects are back when they are back.
 */
export class ObjectGuard {
  readonly #options: ObjectGuardOptions;
  readonly #now: () => number;
  readonly #findings = new Map<string, Finding>();
  readonly #withheld = new Map<string, Finding>();
  readonly #checks = new Map<string, Promise<Finding>>();
  /** Checks that wait for others to end; there is one for each repository that somebody asks for. */
  readonly #line: (() => void)[] = [];
  #checksUnderWay = 0;
  readonly #gaps = new Map<string, string>();
  readonly #walks: HistoryWalks;

  constructor(options: ObjectGuardOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
    const onWalked = (repoId: string, folder: string, gap: string | null): void => {
      if (gap === (this.#gaps.get(repoId) ?? null)) return;
      if (gap === null) this.#gaps.delete(repoId);
      else this.#gaps.set(repoId, gap);
      this.#forget(repoId);
      // Whether or not somebody asks: it is to be logged and counted now.
      this.#look(repoId, folder).catch(() => undefined);
    };
    this.#walks = new HistoryWalks({ walk: options.walk, onWalked, log: options.log, now: this.#now });
  }

  /** Ends what goes on in the background. */
  async stop(): Promise<void> {
    await this.#walks.stop();
  }

  /** Whether a repository lacked objects when it was last looked at. */
  isWithheld(repoId: string): boolean {
    return this.#withheld.has(repoId);
  }

  /** What is missing and what to do, in a sentence for whoever asked; null: the object of every ref is there. */
  async judge(repoId: string, folder: string): Promise<string | null> {
    const finding = await this.#look(repoId, folder);
    if (finding.lost === 0 && finding.gap === null) return null;
    return describeLoss(repoId, relative(this.#options.dataDir, folder), finding);
  }

  /** Throws a 503 with what {@link judge} says. */
  async require(repoId: string, folder: string): Promise<void> {
    const loss = await this.judge(repoId, folder);
    // Without "try again": this does not pass by itself.
    if (loss !== null) throw new HttpError(503, loss);
  }

  /** Git met something that it could not read: the next request looks again. */
  async suspect(repoId: string, folder: string): Promise<void> {
    const known = this.#findings.get(repoId);
    if (known !== undefined && this.#now() - known.checkedAt < SUSPECT_EVERY_MS) return;
    this.#findings.delete(repoId);
    this.#walks.ask(repoId, folder, (await packNames(folder)) ?? new Set());
  }

  #forget(repoId: string): void {
    this.#findings.delete(repoId);
    const withheld = this.#withheld.get(repoId);
    if (withheld !== undefined) withheld.checkedAt = -Infinity;
  }

  async #look(repoId: string, folder: string): Promise<Finding> {
    const withheld = this.#withheld.get(repoId);
    if (withheld !== undefined && this.#now() - withheld.checkedAt < RECHECK_MS) return withheld;
    const names = await packNames(folder);
    const packs = names ?? new Set();
    const known = this.#findings.get(repoId);
    const check = (): Promise<Finding> => this.#checkOnce(repoId, folder, packs);
    if (withheld !== undefined && withheld.gap !== null) this.#walks.ask(repoId, folder, packs);
    if (known === undefined || names === null) return await check();
    if (![...known.packs].every((name) => packs.has(name))) {
      const mark = await maintenanceMark(folder);
      if (mark !== null && mark === known.mark) this.#walks.ask(repoId, folder, packs);
      return await check();
    }
    known.packs = packs;
    // Nothing speaks for a loss, so nobody waits for this one; if it fails, the next request tries again.
    if (this.#now() - known.checkedAt >= TRUST_MS) check().catch(() => undefined);
    return known;
  }

  /** However many ask, there is one check at a time. */
  #checkOnce(repoId: string, folder: string, packs: ReadonlySet<string>): Promise<Finding> {
    const running = this.#checks.get(repoId);
    if (running !== undefined) return running;
    const check = this.#checkInLine(repoId, folder, packs).finally(() => this.#checks.delete(repoId));
    this.#checks.set(repoId, check);
    return check;
  }

  async #checkInLine(repoId: string, folder: string, packs: ReadonlySet<string>): Promise<Finding> {
    if (this.#checksUnderWay < CHECKS_AT_ONCE_MAX) this.#checksUnderWay += 1;
    else await new Promise<void>((begin) => this.#line.push(begin));
    try {
      return await this.#check(repoId, folder, packs);
    } finally {
      const next = this.#line.shift();
      if (next === undefined) this.#checksUnderWay -= 1;
      else next();
    }
  }

  async #check(repoId: string, folder: string, packs: ReadonlySet<string>): Promise<Finding> {
    const checkedAt = this.#now();
    const mark = await maintenanceMark(folder);
    const check = await this.#options.check(repoId, folder);
    const finding = { ...check, packs, mark, checkedAt, gap: this.#gaps.get(repoId) ?? null };
    if (finding.lost > 0 || finding.gap !== null) this.#withhold(repoId, finding);
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
    const { refs, lost, example, gap } = finding;
    this.#options.log.error({ event: 'objects_lost', repo_id: repoId, refs, lost, example, gap });
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

function describeLoss(repoId: string, path: string, finding: Finding): string {
  return `${repoId} is withheld: ${describeFinding(finding)}. The refs are safe in the database. Bring ${path} of the data folder back from a backup or a clone (docs/operating.md); from then on it is served again`;
}

function describeFinding({ refs, lost, example, gap }: Finding): string {
  if (lost === 0) return `what its refs reach is not whole on this server's disk, ${gap}`;
  const which = refs === 1 ? 'its only ref' : `${lost} of its ${refs} refs`;
  const names = lost === 1 ? 'names an object that is' : 'name objects that are';
  const such = `${lost === 1 ? '' : 'such as '}${example?.name} ${example?.oid.slice(0, 12)}`;
  return `${which} ${names} not on this server's disk, ${such}`;
}
