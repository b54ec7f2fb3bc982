import type { DB } from '@sluice/db';
import type { ServerKey } from '@sluice/ref-store';
import type { Logger } from '@sluice/service-kit';
import type { Kysely } from 'kysely';
import type { KeyedTurns } from '../keyed-turns.ts';
import type { Settings } from '../settings.ts';
import type { GovernanceReader } from './governance.ts';
import type { DefinitionReader } from './read-definitions.ts';

/** What it takes to decide a push: of the pusher, or of a hook that stands in for it. */
export interface PushContext {
  settings: Pick<Settings, 'databaseWaitMs' | 'effectsPerPushMax' | 'gitMemoryBytesMax' | 'refsPerRepoMax'>;
  db: Kysely<DB>;
  key: ServerKey;
  log: Logger;
  /** One commit per repository at a time. */
  commitTurns: KeyedTurns;
  definitions: DefinitionReader;
  governance: GovernanceReader;
  /** A folder without git configuration. */
  home: string;
}
