import { decodeWorkOrder, type EffectPlan } from '@sluice/effect-spec';

/** An effect that the log asks for. */
export interface Obligation {
  effect: EffectPlan['enqueue'][number]['effect'];
  ref: string;
  resultRef: string;
  /** OID of the definition. */
  definition: string;
  /** Every push and ref that asked for it: a dedup key makes one effect of them. */
  causes: { pushId: string; ref: string }[];
  /** Place in the order in which effects were asked for. */
  order: number;
}

/** Effects asked for by pushes, by dedup key, as if they were enqueued one after the other. Pure. */
export class Obligations {
  readonly #byKey = new Map<string, Obligation>();
  /** Group → place of the newest effect that supersedes those before it. */
  readonly #newest = new Map<string, number>();
  /** Result ref → hops of the effect that it is the result of. */
  readonly #hops = new Map<string, number>();
  #count = 0;

  add({ ref, effect }: EffectPlan['enqueue'][number]): void {
    const decoded = decodeWorkOrder(effect.payload);
    if ('problem' in decoded) throw new Error(decoded.problem);
    const { order } = decoded;
    this.#hops.set(order.resultRef, order.hops);
    this.#count += 1;
    const known = this.#byKey.get(effect.dedupKey);
    const causes = [...(known?.causes ?? []), { pushId: effect.pushId, ref }];
    if (known !== undefined && effect.supersede !== true) {
      known.causes = causes;
      return;
    }
    if (effect.supersede === true) this.#newest.set(effect.concurrencyGroup!, this.#count);
    // Asked for again, a superseding effect is the newest of its group again; deleted first, for the map's order.
    this.#byKey.delete(effect.dedupKey);
    this.#byKey.set(effect.dedupKey, {
      effect,
      ref,
      causes,
      resultRef: order.resultRef,
      definition: order.effect.definition,
      order: this.#count,
    });
  }

  /** The oldest first. */
  all(): Obligation[] {
    return [...this.#byKey.values()];
  }

  hopsOf(resultRef: string): number | undefined {
    return this.#hops.get(resultRef);
  }

  /** Whether a later effect of its group replaced it, if it was still waiting then. */
  isSuperseded({ effect, order }: Obligation): boolean {
    const newest =
      effect.concurrencyGroup === undefined ? undefined : this.#newest.get(effect.concurrencyGroup);
    return newest !== undefined && newest > order;
  }
}
