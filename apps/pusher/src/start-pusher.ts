import { mkdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { assertUsable, createDatabase, isUnavailable, SluiceError, unsafeSettings } from '@sluice/db';
import { loadServerKey, registerServerKey, repoFolder } from '@sluice/ref-store';
import { isLoopback, listenOn, makeFolder, untilAnswered, type Logger } from '@sluice/service-kit';
import { nonceSeed } from './git/certificate-nonce.ts';
import { PushCapabilities } from './git/push-capabilities.ts';
import { RefCache } from './git/ref-cache.ts';
import { syncFolder } from './git/repo-folder.ts';
import { requireGit } from './git/require-git.ts';
import { createSlotClasses } from './git/slot-classes.ts';
import { writeHooks } from './git/write-hooks.ts';
import { createAdmission } from './http/admission.ts';
import { assertGuarded } from './http/authorize.ts';
import { createGitServer } from './http/create-git-server.ts';
import { createHandler } from './http/handle-request.ts';
import type { Pusher } from './http/pusher.ts';
import { KeyedTurns } from './keyed-turns.ts';
import { FirstPushes } from './push/first-pushes.ts';
import { GovernanceReader } from './push/governance.ts';
import { DefinitionReader } from './push/read-definitions.ts';
import { createPusherMetrics } from './pusher-metrics.ts';
import type { Settings } from './settings.ts';
import { findGap } from './store/find-gap.ts';
import { findLostRefs } from './store/find-lost-refs.ts';
import { noteLostPushes } from './store/lost-pushes.ts';
import { ObjectGuard } from './store/object-guard.ts';
import { Upkeep } from './store/upkeep.ts';

export interface RunningPusher {
  /** `http://host:port`, with the port that was really taken. */
  url: string;
  /**
   * Takes no new request and waits for the running ones. Hurried, it cuts the connections: pushes that are being
   * committed still finish, the others end without a trace.
   */
  stop: (how: { hurry: boolean }) => Promise<void>;
}

const SLOT_WAIT_MS = 60_000;
/** A server that is silent for longer is taken for lost. */
const QUERY_MS_MAX = 60_000;

/** Starts the pusher; ready to take pushes when it resolves. */
export async function startPusher(settings: Settings, log: Logger): Promise<RunningPusher> {
  // First of all: who is refused here leaves no folder, and no key that the database trusts.
  assertGuarded(settings);
  const dataDir = resolve(settings.dataDir);
  const home = join(dataDir, 'home');
  await makeFolder('SLUICE_DATA_DIR', dataDir);
  await mkdir(home, { recursive: true, mode: 0o700 });
  await mkdir(join(dataDir, 'repos'), { recursive: true });
  await syncFolder(dataDir);
  const db = createDatabase({
    connectionString: settings.databaseUrl,
    applicationName: 'sluice-pusher',
    pooler: settings.pooler,
    queryTimeoutMs: QUERY_MS_MAX,
    onIdleError: (error) => log.warn({ event: 'database_connection_lost', error }),
  });
  try {
    await requireGit(home);
    await untilAnswered(() => assertUsable(db), {
      boundMs: settings.databaseWaitMs,
      isRetryable: isUnavailable,
      onRetry: ({ error, waitMs }) => log.warn({ event: 'database_awaited', error, waitMs }),
    });
    // A push that was accepted would be gone with the machine's memory.
    const unsafe = await unsafeSettings(db);
    if (unsafe.length > 0) log.warn({ event: 'database_not_durable', off: unsafe });
    const key = await loadServerKey(settings.keyFile ?? join(dataDir, 'server-key.pem'));
    await registerServerKey(db, key);
    const metrics = createPusherMetrics();
    const guard = new ObjectGuard({
      dataDir,
      log,
      check: (repoId, folder) =>
        findLostRefs(db, repoId, { folder, home, memoryBytesMax: settings.gitMemoryBytesMax }),
      walk: (repoId, folder, signal) => findGap(db, repoId, { folder, home, signal }),
      onCount: (withheld) => metrics.reposWithheld.set(withheld),
    });
    const hooksFolder = await writeHooks(dataDir);
    const { pushBytesMax } = settings;
    const pusher: Pusher = {
      settings: { ...settings, dataDir },
      db,
      log,
      home,
      key,
      metrics,
      guard,
      refs: new RefCache({
        db,
        folderOf: (repoId, objectFormat) => repoFolder(dataDir, repoId, objectFormat),
        admit: (repoId, folder) => guard.require(repoId, folder),
        onLost: (lost) => noteLostPushes(log, lost),
      }),
      capabilities: new PushCapabilities({ dataDir, home, hooksFolder, pushBytesMax }),
      slots: createSlotClasses({ max: settings.gitProcesses, waitMs: SLOT_WAIT_MS }),
      admission: createAdmission(settings, (limit) => metrics.refusals.inc({ reason: limit })),
      commitTurns: new KeyedTurns(),
      firstPushes: new FirstPushes({ db, log }),
      definitions: new DefinitionReader(),
      governance: new GovernanceReader(),
      nonceSeed: nonceSeed(key),
      hooksFolder,
    };
    return await listen(pusher);
  } catch (error) {
    await db.destroy();
    if (!isUnavailable(error)) throw error;
    throw new SluiceError(
      'database_unavailable',
      'DATABASE_URL: expected a PostgreSQL server there, but it does not answer.',
      { next: 'Start it, or correct the setting.', cause: error },
    );
  }
}

async function listen(pusher: Pusher): Promise<RunningPusher> {
  const { settings, log, db } = pusher;
  const handle = createHandler(pusher);
  const running = new Set<Promise<void>>();
  const server = createGitServer(
    (request, response) => {
      const one = handle(request, response).finally(() => running.delete(one));
      running.add(one);
    },
    {
      // On loopback they are this machine's, or those of a proxy on it.
      perAddress:
        settings.proxyHops > 0 || isLoopback(settings.listen.host) ? null : settings.addressConnections,
      onRefused: () => pusher.metrics.refusals.inc({ reason: 'connections' }),
    },
  );
  const url = await listenOn(server, settings.listen, 'SLUICE_LISTEN');
  server.on('error', (error) => log.error({ event: 'server_error', error }));
  log.info({ event: 'pusher_started', url });

  // Not before: who pushes and fetches does not wait for it.
  const upkeep = new Upkeep(pusher);
  const drain = async (): Promise<void> => {
    await Promise.all([upkeep.stop(), pusher.guard.stop()]);
    while (running.size > 0) await Promise.allSettled(running);
    server.closeAllConnections();
    await db.destroy();
  };
  let stopped: Promise<void> | undefined;
  return {
    url,
    stop: async ({ hurry }) => {
      if (server.listening) server.close();
      server.closeIdleConnections();
      for (const slots of Object.values(pusher.slots)) slots.close();
      if (hurry) server.closeAllConnections();
      await (stopped ??= drain());
    },
  };
}
