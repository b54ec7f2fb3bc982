import type { DB } from '@sluice/db';
import {
  DEFINITION_FILE,
  DEFINITION_LIMITS,
  DEFINITION_PREFIX,
  matchEffect,
  META_PREFIX,
  parseDefinition,
  planEffects,
  RESULT_PREFIX,
  type CurrentDefinition,
  type EffectDefinition,
} from '@sluice/effect-spec';
import { iteratePushes, requestOf, type LoggedPush } from '@sluice/ref-store';
import type { Kysely } from 'kysely';
import { Obligations, type Obligation } from './obligations.ts';
import type { RepoObjects } from './repo-objects.ts';

export interface ReplayOptions {
  repoId: string;
  objects: RepoObjects;
  /** As the pusher has it. */
  effectsMax: number;
  onProgress: (pushes: number) => void;
  signal: AbortSignal;
}

/** Something that could not be read, and which pushes it leaves open. */
export interface Gap {
  what: string;
  firstPushId: string;
  pushes: number;
}

const PAGE_PUSHES = 200;
const RESULT_FILE = 'result.json';
const RESULT_BYTES_MAX = 256 * 1024;

/** Goes through a repository's log and works out which effects its pushes asked for, with the definitions of then. */
export class Replay {
  readonly #options: ReplayOptions;
  readonly #obligations = new Obligations();
  /** Definition → OID, as of the last push looked at. */
  readonly #definitions = new Map<string, string>();
  /** By OID; text says why there is none. */
  readonly #loaded = new Map<string, EffectDefinition | string>();
  /** Result ref → all results it had since it was last created. */
  readonly #results = new Map<string, string[]>();
  /** Result → the cause that it names. */
  readonly #causes = new Map<string, { pushId: string; ref: string; definition: string }>();
  readonly #gaps = new Map<string, Gap>();
  #seq = 0n;
  #pushes = 0;

  constructor(options: ReplayOptions) {
    this.#options = options;
  }

  get pushes(): number {
    return this.#pushes;
  }

  get gaps(): Gap[] {
    return [...this.#gaps.values()];
  }

  /** Takes in what was pushed since the last call. */
  async catchUp(db: Kysely<DB>): Promise<void> {
    const { repoId, signal, onProgress } = this.#options;
    let page: LoggedPush[] = [];
    const take = async (): Promise<void> => {
      signal.throwIfAborted();
      await this.#take(db, page);
      onProgress(this.#pushes);
      page = [];
    };
    for await (const push of iteratePushes(db, { repoId, after: this.#seq })) {
      page.push(push);
      if (page.length === PAGE_PUSHES) await take();
    }
    if (page.length > 0) await take();
  }

  /** The effects that have no result and that no newer one replaced, the oldest first. */
  async open(db: Kysely<DB>): Promise<{ open: Obligation[]; withResult: number; superseded: number }> {
    const all = this.#obligations.all();
    const rest: Obligation[] = [];
    for (const [resultRef, sharing] of Map.groupBy(all, (one) => one.resultRef)) {
      const results = this.#results.get(resultRef) ?? [];
      rest.push(...(results.length === 0 ? sharing : await this.#withoutResult(db, sharing, results)));
    }
    const open = rest.filter((one) => !this.#obligations.isSuperseded(one));
    return {
      open: open.toSorted((a, b) => a.order - b.order),
      withResult: all.length - rest.length,
      superseded: rest.length - open.length,
    };
  }

  async #take(db: Kysely<DB>, pushes: readonly LoggedPush[]): Promise<void> {
    const inForce = pushes.map((push) => this.#apply(push));
    await this.#load(db, new Set(inForce.flatMap((definitions) => definitions.map(([, oid]) => oid))));
    const work = pushes.map((push, index) => ({ push, definitions: this.#usable(push, inForce[index]!) }));
    const facts = await this.#options.objects.facts(
      db,
      work.flatMap(({ push, definitions }) => subjects(push, definitions).map(({ oid }) => oid)),
    );
    for (const { push, definitions } of work) {
      for (const { oid, name } of subjects(push, definitions)) {
        if (facts.get(oid)?.kind === null) this.#miss(`${oid}, which ${name} named`, push);
      }
      const plan = planEffects({
        repoId: this.#options.repoId,
        pushId: push.pushId,
        signer: push.signer,
        applied: push.edits,
        definitions,
        facts,
        hops: this.#hopsOf(push),
        effectsMax: this.#options.effectsMax,
        skipReason: push.body === null ? null : requestOf(push.body).noEffects,
      });
      for (const planned of plan.enqueue) this.#obligations.add(planned);
      this.#pushes += 1;
      this.#seq = push.seq;
    }
  }

  /** Notes definitions and results that the push changed; returns the definitions in force after it. */
  #apply({ edits }: LoggedPush): [name: string, oid: string][] {
    for (const { name, newOid } of edits) {
      if (name.startsWith(DEFINITION_PREFIX)) {
        const effect = name.slice(DEFINITION_PREFIX.length);
        if (newOid === null) this.#definitions.delete(effect);
        else this.#definitions.set(effect, newOid);
      } else if (name.startsWith(RESULT_PREFIX)) {
        if (newOid === null) this.#results.delete(name);
        else this.#results.set(name, [...(this.#results.get(name) ?? []), newOid]);
      }
    }
    // The order in which the pusher reads them, by name.
    return [...this.#definitions].toSorted(([a], [b]) => (a < b ? -1 : 1));
  }

  async #load(db: Kysely<DB>, oids: ReadonlySet<string>): Promise<void> {
    const missing = [...oids].filter((oid) => !this.#loaded.has(oid));
    const files = await this.#options.objects.files(db, {
      commits: missing,
      name: DEFINITION_FILE,
      bytesMax: DEFINITION_LIMITS.bytes,
    });
    for (const oid of missing) {
      const file = files.get(oid);
      const parsed = file === undefined ? undefined : parseDefinition(file);
      this.#loaded.set(
        oid,
        parsed === undefined
          ? 'it cannot be read'
          : 'definition' in parsed
            ? parsed.definition
            : `line ${parsed.problems[0]?.line}: ${parsed.problems[0]?.message}`,
      );
    }
  }

  #usable(push: LoggedPush, inForce: readonly [name: string, oid: string][]): CurrentDefinition[] {
    const mayTrigger = push.edits.some(({ name }) => !name.startsWith(META_PREFIX));
    return inForce.flatMap(([name, oid]) => {
      const definition = this.#loaded.get(oid)!;
      if (typeof definition !== 'string') return [{ name, oid, definition }];
      if (mayTrigger) this.#miss(`the definition ${name} at ${oid} (${definition})`, push);
      return [];
    });
  }

  /** A result is pushed alone, and what it causes is one step further from a person's push. */
  #hopsOf({ edits }: LoggedPush): number {
    const [edit] = edits;
    if (edit === undefined || !edit.name.startsWith(RESULT_PREFIX)) return 0;
    return (this.#obligations.hopsOf(edit.name) ?? 0) + 1;
  }

  #miss(what: string, { pushId }: LoggedPush): void {
    const gap = this.#gaps.get(what);
    if (gap === undefined) this.#gaps.set(what, { what, firstPushId: pushId, pushes: 1 });
    else gap.pushes += 1;
  }

  /** A commit on two branches, or under a changed definition, has one result ref: the results say whose they are. */
  async #withoutResult(
    db: Kysely<DB>,
    sharing: readonly Obligation[],
    results: readonly string[],
  ): Promise<Obligation[]> {
    if (sharing.length === 1) return [];
    const unread = results.filter((oid) => !this.#causes.has(oid));
    const files = await this.#options.objects.files(db, {
      commits: unread,
      name: RESULT_FILE,
      bytesMax: RESULT_BYTES_MAX,
    });
    for (const oid of unread) {
      const cause = readCause(files.get(oid));
      if (cause !== undefined) this.#causes.set(oid, cause);
    }
    const known = results.flatMap((oid) => this.#causes.get(oid) ?? []);
    if (known.length < results.length) {
      const { resultRef, effect } = sharing[0]!;
      const what = `${resultRef} (its results do not say which of ${sharing.length} effects they belong to)`;
      this.#gaps.set(what, { what, firstPushId: effect.pushId, pushes: sharing.length });
      return [];
    }
    return sharing.filter(
      ({ definition, causes }) =>
        !known.some(
          (result) =>
            result.definition === definition &&
            causes.some(({ pushId, ref }) => pushId === result.pushId && ref === result.ref),
        ),
    );
  }
}

/** The edits that some definition matches, with the object that it is about. */
function subjects(
  { edits }: LoggedPush,
  definitions: readonly CurrentDefinition[],
): { name: string; oid: string }[] {
  return edits
    .filter((edit) => definitions.some(({ definition }) => matchEffect(definition, edit).matches))
    .map(({ name, oldOid, newOid }) => ({ name, oid: newOid ?? oldOid! }));
}

function readCause(
  file: Buffer | undefined,
): { pushId: string; ref: string; definition: string } | undefined {
  try {
    const value: unknown = JSON.parse(file?.toString('utf8') ?? '');
    if (typeof value !== 'object' || value === null) return undefined;
    const { pushId, ref, definition } = value as Record<string, unknown>;
    if (typeof pushId !== 'string' || typeof ref !== 'string' || typeof definition !== 'string')
      return undefined;
    return { pushId, ref, definition };
  } catch {
    return undefined;
  }
}
