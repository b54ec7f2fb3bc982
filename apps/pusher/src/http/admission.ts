import type { Settings } from '../settings.ts';
import type { Denial } from './caller.ts';
import { RateLimit } from './rate-limit.ts';

/** By what requests are counted. */
export type CountedBy = 'address' | 'account' | 'repo';

/** Counted apart, so that who has used up one can still do the other. */
export type Traffic = 'fetch' | 'push';

/** Which limit somebody ran into. */
export type Exceeded = `${CountedBy}_rate` | `${CountedBy}_at_once`;

export interface Limit {
  perMinute: number;
  atOnce: number;
}

/** What a request has taken of the limits. Disposing it ends its part in what there is at once. */
export interface Entry extends Disposable {
  /** Counts the request; says why that is one too many. */
  count(by: CountedBy, name: string): Denial | null;
  /** Makes the request one that was never counted. */
  forgive(): void;
}

/** The limits that the settings say. */
export function createAdmission(settings: Settings, onRefused: (limit: Exceeded) => void): Admission {
  const limits = {
    address: { perMinute: settings.addressPerMinute, atOnce: settings.addressAtOnce },
    account: { perMinute: settings.accountPerMinute, atOnce: settings.accountAtOnce },
    repo: { perMinute: settings.repoPerMinute, atOnce: settings.repoAtOnce },
  };
  return new Admission({ limits, onRefused });
}

/** Limits how many requests one address, account or repository has under way, and how many it sends in a minute. */
export class Admission {
  readonly #limits: Readonly<Record<CountedBy, Limit>>;
  readonly #rates: Readonly<Record<CountedBy, RateLimit>>;
  readonly #underWay = new Map<string, number>();

  readonly #onRefused: (limit: Exceeded) => void;

  constructor(options: { limits: Readonly<Record<CountedBy, Limit>>; onRefused: (limit: Exceeded) => void }) {
    const { limits } = options;
    this.#limits = limits;
    this.#onRefused = options.onRefused;
    this.#rates = {
      address: new RateLimit(limits.address.perMinute),
      account: new RateLimit(limits.account.perMinute),
      repo: new RateLimit(limits.repo.perMinute),
    };
  }

  begin(traffic: Traffic): Entry {
    const counted: { by: CountedBy; key: string }[] = [];
    const leave = (): void => {
      for (const { key } of counted) this.#leave(key);
      counted.length = 0;
    };
    return {
      count: (by, name) => {
        const key = `${by} ${traffic} ${name}`;
        const denial = this.#enter(by, key);
        if (denial === null) counted.push({ by, key });
        return denial;
      },
      forgive: () => {
        for (const { by, key } of counted) this.#rates[by].giveBack(key);
        leave();
      },
      [Symbol.dispose]: leave,
    };
  }

  #enter(by: CountedBy, key: string): Denial | null {
    const { atOnce, perMinute } = this.#limits[by];
    const underWay = this.#underWay.get(key) ?? 0;
    if (underWay >= atOnce) {
      this.#onRefused(`${by}_at_once`);
      const most = `${atOnce} requests at once ${NAMED[by]} (${SETTING[by]}_AT_ONCE)`;
      const reason = `expected at most ${most}, got more; try again when one of them has ended`;
      return { status: 429, reason, retryAfterSeconds: ENDED_SECONDS };
    }
    const waitMs = this.#rates[by].take(key);
    if (waitMs > 0) {
      this.#onRefused(`${by}_rate`);
      const seconds = Math.ceil(waitMs / 1000);
      const most = `${perMinute} requests a minute ${NAMED[by]} (${SETTING[by]}_PER_MINUTE)`;
      const reason = `expected at most ${most}, got more; try again in ${seconds} s`;
      return { status: 429, reason, retryAfterSeconds: seconds };
    }
    this.#underWay.set(key, underWay + 1);
    return null;
  }

  #leave(key: string): void {
    const left = this.#underWay.get(key)! - 1;
    if (left === 0) this.#underWay.delete(key);
    else this.#underWay.set(key, left);
  }
}

/** When a request ends is not known; most of them take less. */
const ENDED_SECONDS = 5;

const NAMED = {
  address: 'from one address',
  account: 'from one account',
  repo: 'to one repository',
} as const;
const SETTING = { address: 'SLUICE_ADDRESS', account: 'SLUICE_ACCOUNT', repo: 'SLUICE_REPO' } as const;
