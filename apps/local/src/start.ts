// npm start: everything on this machine, for one person. Data in .sluice, nothing listens beyond loopback.
import { rmSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { join } from 'node:path';
import { createDatabase, migrate } from '@sluice/db';
import { startLocalPostgres } from '@sluice/local-postgres';
import { makeFolder, SettingsError, url } from '@sluice/service-kit';
import { absolutePaths } from './absolute-paths.ts';
import { takeInstanceLock } from './instance-lock.ts';
import { listenAddress } from './listen-address.ts';
import { LocalError } from './local-error.ts';
import { onInterrupt } from './on-interrupt.ts';
import { PROJECT_ROOT } from './project-root.ts';
import { startServices, type RunningServices } from './start-services.ts';

const say = (line: string): void => void process.stderr.write(`${line}\n`);

let services: RunningServices | undefined;
const interrupted = onInterrupt(() => {
  say('Stopping at once.');
  process.exitCode = 130;
  services?.kill();
});
try {
  await main();
} catch (error) {
  if (!(error instanceof LocalError || error instanceof SettingsError)) throw error;
  say(error.message);
  process.exitCode = 1;
}
process.exit();

async function main(): Promise<void> {
  const paths = absolutePaths(process.env);
  const dataDir = paths.SLUICE_DATA_DIR;
  await makeFolder('SLUICE_DATA_DIR', dataDir);
  using _lock = takeInstanceLock(join(dataDir, 'lock'));
  const listen = await listenAddress(process.env['SLUICE_LISTEN'], process.env['SLUICE_TOKEN']);
  await using database = await openDatabase(dataDir);
  await migrateDatabase(database.url);
  if (interrupted.aborted) return;

  say('Starting pusher and dispatcher.');
  services = await startServices({
    databaseUrl: database.url,
    listen,
    dataDir,
    logFile: join(dataDir, 'services.log'),
    env: { ...process.env, ...paths },
    onTrouble: ({ service, level, event, message }) =>
      say(`${service}: ${level}: ${event} ${message}`.trimEnd()),
  });
  const localFile = join(dataDir, 'local.json');
  try {
    rmSync(localFile, { force: true });
    const local = { databaseUrl: database.url, pusherUrl: services.pusherUrl };
    writeFileSync(localFile, `${JSON.stringify(local, null, 2)}\n`, { mode: 0o600 });
    say(greeting(services.pusherUrl, dataDir, database.name));
    const lastWords = await Promise.race([
      services.ended.then((words) => `The services ended by themselves:\n${words}`),
      // The next server has another port, so the services cannot wait for it.
      database.ended?.then((words) => `PostgreSQL ended by itself:\n${words}`) ??
        new Promise<never>(() => {}),
      interruption(),
    ]);
    if (lastWords !== undefined) throw new LocalError(lastWords);
    say('Stopping: no new work; what still runs is run again by the next start. Ctrl-C again stops at once.');
  } finally {
    await services.stop();
    rmSync(localFile, { force: true });
    say(`Stopped. Everything is kept in ${dataDir}.`);
  }
}

async function interruption(): Promise<undefined> {
  if (!interrupted.aborted) await once(interrupted, 'abort');
}

interface OpenDatabase extends AsyncDisposable {
  url: string;
  name: string;
  /** Of a server that runs for this program alone. */
  ended?: Promise<string>;
}

async function openDatabase(dataDir: string): Promise<OpenDatabase> {
  const given = process.env['DATABASE_URL'];
  if (given !== undefined && given !== '') {
    if ('expected' in url(['postgres:', 'postgresql:'])(given))
      throw new LocalError(
        'DATABASE_URL: expected a URL that starts with postgres://, got something else. ' +
          'Correct it, or unset it to use the PostgreSQL that comes along.',
      );
    return {
      url: given,
      name: 'the one that DATABASE_URL names',
      [Symbol.asyncDispose]: () => Promise.resolve(),
    };
  }
  say('Starting PostgreSQL 18.');
  const server = await startLocalPostgres({ dataDir: join(dataDir, 'postgres') });
  return {
    url: server.url,
    name: `PostgreSQL 18 on 127.0.0.1:${server.port}, password in ${join(dataDir, 'local.json')}`,
    ended: server.ended,
    [Symbol.asyncDispose]: () => server.stop(),
  };
}

async function migrateDatabase(connectionString: string): Promise<void> {
  const db = createDatabase({ connectionString, applicationName: 'sluice-local', connectionsMax: 1 });
  try {
    const applied = await migrate(db);
    if (applied.length > 0) say(`Migrated: ${applied.map((step) => step.migrationName).join(', ')}`);
  } catch (error) {
    if (!(error instanceof Error) || error instanceof TypeError) throw error;
    // A host with two addresses that both refuse gives an error without a message.
    const what = error.message || (error as NodeJS.ErrnoException).code;
    throw new LocalError(
      `The database cannot be used: ${what}. Check DATABASE_URL, or unset it to use the PostgreSQL that comes along.`,
    );
  } finally {
    await db.destroy();
  }
}

function greeting(pusherUrl: string, dataDir: string, databaseName: string): string {
  const cli = shellWord(join(PROJECT_ROOT, 'apps', 'cli', 'bin', 'sluice'));
  const hello = shellWord(join(PROJECT_ROOT, 'apps', 'local', 'hello.yaml'));
  const isOpen = (process.env['SLUICE_TOKEN'] ?? '') === '';
  const password = isOpen ? '' : '  password   what SLUICE_TOKEN says, with any user name\n';
  return `
Sluice runs.
  push to    ${pusherUrl}/<name>.git
${password}  database   ${databaseName}
  data       ${dataDir}
  logs       ${join(dataDir, 'services.log')}

Three lines to try, in any git repository with a commit:
  git remote add sluice ${pusherUrl}/me/first.git
  ${cli} effect add hello ${hello} --remote sluice
  git push sluice HEAD:refs/heads/main
Then read the result:
  git fetch sluice 'refs/meta/results/*:refs/meta/results/*' && git show refs/meta/results/hello/$(git rev-parse HEAD):log

Ctrl-C stops everything; the next npm start finds everything again.`;
}

function shellWord(path: string): string {
  return /^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`;
}
