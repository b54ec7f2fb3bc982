import { join, resolve } from 'node:path';
import { assertUsable, createDatabase, isUnavailable } from '@sluice/db';
import { loadServerKey, registerServerKey } from '@sluice/ref-store';
import { untilAnswered, type Logger } from '@sluice/service-kit';
import { ADOPTED } from '../git/adopted-folder.ts';
import { RefCache } from '../git/ref-cache.ts';
import { KeyedTurns } from '../keyed-turns.ts';
import { GovernanceReader } from '../push/governance.ts';
import type { PushContext } from '../push/push-context.ts';
import { DefinitionReader } from '../push/read-definitions.ts';
import { noteLostPushes } from '../store/lost-pushes.ts';
import type { HookSettings } from './hook-settings.ts';

/** An adopted repository with all that deciding one push to it takes. */
export interface AdoptedRepository extends PushContext, AsyncDisposable {
  repoId: string;
  /** The bare repository itself, not a link to it. */
  folder: string;
  settings: HookSettings;
  refs: RefCache;
}

/** A server that is silent for longer is taken for lost. */
const QUERY_MS_MAX = 60_000;

/** Opens the database behind an adopted repository, waiting for it as long as a push does. */
export async function openAdopted(
  { repoId, folder }: { repoId: string; folder: string },
  settings: HookSettings,
  log: Logger,
): Promise<AdoptedRepository> {
  const db = createDatabase({
    connectionString: settings.databaseUrl,
    applicationName: 'sluice-hook',
    connectionsMax: 1,
    pooler: settings.pooler,
    queryTimeoutMs: QUERY_MS_MAX,
  });
  try {
    const key = await untilAnswered(
      async () => {
        await assertUsable(db);
        const found = await loadServerKey(
          settings.keyFile ?? join(resolve(settings.dataDir), 'server-key.pem'),
        );
        await registerServerKey(db, found);
        return found;
      },
      { boundMs: settings.databaseWaitMs, isRetryable: isUnavailable },
    );
    return {
      repoId,
      folder,
      settings,
      db,
      key,
      log,
      home: join(folder, ADOPTED.folder),
      refs: new RefCache({ db, folderOf: () => folder, onLost: (lost) => noteLostPushes(log, lost) }),
      commitTurns: new KeyedTurns(),
      definitions: new DefinitionReader(),
      governance: new GovernanceReader(),
      [Symbol.asyncDispose]: () => db.destroy().catch(() => undefined),
    };
  } catch (error) {
    await db.destroy();
    throw error;
  }
}
