import type { DB } from '@sluice/db';
import type { ServerKey } from '@sluice/ref-store';
import type { Logger } from '@sluice/service-kit';
import type { Kysely } from 'kysely';
import type { PushCapabilities } from '../git/push-capabilities.ts';
import type { RefCache } from '../git/ref-cache.ts';
import type { SlotClasses } from '../git/slot-classes.ts';
import type { KeyedTurns } from '../keyed-turns.ts';
import type { FirstPushes } from '../push/first-pushes.ts';
import type { GovernanceReader } from '../push/governance.ts';
import type { DefinitionReader } from '../push/read-definitions.ts';
import type { PusherMetrics } from '../pusher-metrics.ts';
import type { Settings } from '../settings.ts';
import type { ObjectGuard } from '../store/object-guard.ts';
import type { Admission } from './admission.ts';

/** What every request works with: made once at the start, passed down, never global. */
export interface Pusher {
  settings: Settings;
  db: Kysely<DB>;
  key: ServerKey;
  log: Logger;
  metrics: PusherMetrics;
  refs: RefCache;
  capabilities: PushCapabilities;
  guard: ObjectGuard;
  slots: SlotClasses;
  admission: Admission;
  /** One commit per repository at a time. */
  commitTurns: KeyedTurns;
  firstPushes: FirstPushes;
  definitions: DefinitionReader;
  governance: GovernanceReader;
  /** Git makes the nonces of push certificates with it. */
  nonceSeed: string;
  /** A folder without git configuration. */
  home: string;
  hooksFolder: string;
}
