import { assertUsable, createDatabase, isUnavailable, type DatabaseOptions, type DB } from '@sluice/db';
import { startDispatcher } from '@sluice/dispatch';
import {
  createLogger,
  createRegistry,
  onShutdown,
  SettingsError,
  startHealthServer,
  untilAnswered,
  type HealthServer,
  type Logger,
  type Registry,
} from '@sluice/service-kit';
import { sql, type Kysely } from 'kysely';
import { checkPusher } from './check-pusher.ts';
import { chooseExecutor } from './choose-executor.ts';
import { openCommitCache } from './commit-cache.ts';
import { registerDispatcherMetrics, registerQueueMetrics } from './dispatcher-metrics.ts';
import { logDispatchEvent } from './log-dispatch-event.ts';
import { createPusherClient } from './pusher-client.ts';
import { runEffect } from './run-effect.ts';
import { readDispatcherSettings, type Settings } from './settings.ts';
import { openWorkFolder } from './work-folder.ts';

/** How long a start waits for a database that does not answer yet. */
const START_MS_MAX = 60_000;
/** A server that is silent for longer is taken for lost. */
const QUERY_MS_MAX = 60_000;
/** The same for a heartbeat, unless it beats more often; and what is always left to it for opening a connection. */
const HEARTBEAT_MS_MAX = 5_000;
const HEARTBEAT_MS_MIN = 1_000;
/** Beyond the grace for effects: for their claims, connections and folders. */
const CLOSE_MS_MAX = 20_000;

async function main(args: readonly string[], env: NodeJS.ProcessEnv): Promise<void> {
  const unknown = args.find((arg) => arg !== '--unsandboxed');
  if (unknown !== undefined) {
    const message = `expected none or --unsandboxed, got ${unknown}; settings come from the environment`;
    throw new SettingsError([{ name: 'arguments', message }]);
  }
  const settings = readDispatcherSettings(env);
  const log = createLogger({ service: 'dispatcher', level: settings.logLevel });
  const { executor, warning } = await chooseExecutor({
    wanted: settings.executor,
    isLocal: settings.isLocal && env['NODE_ENV'] !== 'production',
    isUnsandboxedAllowed: args.includes('--unsandboxed'),
    readOnlyPaths: settings.readOnlyPaths,
    isRoot: process.getuid?.() === 0,
  });
  if (warning !== undefined) log.warn({ event: 'executor_warning', executor: executor.name, warning });
  await run(settings, executor, log);
}

async function run(
  settings: Settings,
  executor: Awaited<ReturnType<typeof chooseExecutor>>['executor'],
  log: Logger,
): Promise<void> {
  const database: DatabaseOptions = {
    connectionString: settings.databaseUrl,
    applicationName: 'sluice dispatcher',
    pooler: settings.pooler,
    onIdleError: (error) => log.warn({ event: 'database_connection_lost', error }),
  };
  const db = createDatabase({ ...database, queryTimeoutMs: QUERY_MS_MAX });
  const heartbeatMs = Math.max(HEARTBEAT_MS_MIN, Math.min(settings.beatMs, HEARTBEAT_MS_MAX));
  const heartbeatDb = createDatabase({
    ...database,
    connectionsMax: 2,
    connectTimeoutMs: heartbeatMs,
    queryTimeoutMs: heartbeatMs,
  });
  await untilAnswered(() => assertUsable(db), {
    boundMs: START_MS_MAX,
    isRetryable: isUnavailable,
    onRetry: ({ error }) => log.warn({ event: 'database_unavailable', error }),
  });
  const silent = await checkPusher(settings.pusherUrl, settings.token);
  // Started together, the pusher may be a moment later.
  if (silent !== undefined)
    log[settings.isLocal ? 'info' : 'warn']({
      event: 'pusher_unreachable',
      pusher: settings.pusherUrl,
      error: silent,
    });
  const workFolder = await openWorkFolder(settings.workDir);
  if (workFolder.swept.folders > 0) log.info({ event: 'work_folder_swept', ...workFolder.swept });
  const pusher = createPusherClient(settings.pusherUrl, settings.token);
  const cache = await openCommitCache({ pusher, folder: workFolder.cacheDir });
  const runner = {
    pusher,
    cache,
    executor,
    createRunFolder: workFolder.createRunFolder,
    now: () => new Date(),
  };
  const registry = createRegistry();
  const health = await serveHealth(settings, { registry, db, log });
  const { slots, repoCap, leaseMs, beatMs, pollMs, graceMs, retentionDays } = settings;
  const dispatcher = await startDispatcher({
    slots,
    repoCap,
    leaseMs,
    beatMs,
    pollMs,
    graceMs,
    retentionDays,
    db,
    heartbeatDb,
    // Such a pooler would take LISTEN and never tell: the queue is polled.
    connectionString: settings.pooler === 'transaction' ? undefined : settings.databaseUrl,
    run: (effect, context) => runEffect(effect, context, runner),
    onEvent: (event) => logDispatchEvent(log, event),
  });
  registerDispatcherMetrics(registry, () => dispatcher.stats);
  registerQueueMetrics(registry, db);
  log.info({
    event: 'dispatcher_started',
    dispatcher_id: dispatcher.dispatcherId,
    executor: executor.name,
    slots,
    pusher: settings.pusherUrl,
    health: health?.url,
  });
  onShutdown({
    log,
    graceMs: graceMs + CLOSE_MS_MAX,
    stop: async ({ hurry }) => {
      await dispatcher.stop({ hurry });
      await health?.[Symbol.asyncDispose]();
      await workFolder[Symbol.asyncDispose]();
      if (!hurry) await Promise.all([db.destroy(), heartbeatDb.destroy()]);
    },
  });
}

async function serveHealth(
  { healthListen }: Settings,
  { registry, db, log }: { registry: Registry; db: Kysely<DB>; log: Logger },
): Promise<HealthServer | undefined> {
  if (healthListen === undefined) return undefined;
  return startHealthServer({
    listen: healthListen,
    setting: 'SLUICE_HEALTH_LISTEN',
    registry,
    check: () => sql`select 1`.execute(db),
    onUnhealthy: (error) => log.warn({ event: 'health_check_failed', error }),
  });
}

try {
  await main(process.argv.slice(2), process.env);
} catch (error) {
  process.stderr.write(`${explain(error)}\n`);
  process.exit(1);
}

/** What somebody who starts it can act on is one sentence; a stack only where the fault is ours. */
function explain(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const code = 'code' in error ? String(error.code) : '';
  const isOurs = error instanceof TypeError || (error.name === 'Error' && code === '');
  return isOurs ? (error.stack ?? error.message) : error.message || `${error.name} ${code}`;
}
