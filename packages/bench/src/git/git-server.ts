import { fork, spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { gitEnvironment, runGit } from './run-git.ts';

/** A server that takes pushes over HTTP, in a process of its own. */
export interface GitServer extends AsyncDisposable {
  readonly url: string;
  readonly pid: number;
  /** Makes what a first push does not make by itself. */
  prepare(repo: string): Promise<void>;
}

const BRIDGE = fileURLToPath(new URL('./cgi-bridge.ts', import.meta.url));
const PUSHER = fileURLToPath(new URL('../../../../apps/pusher/src/main.ts', import.meta.url));

/** What the pusher gives to git as well: objects checked, kept as packs and synced to disk, and no housekeeping. */
const CONFIGURATION: Record<string, string> = {
  'safe.directory': '*',
  'http.receivepack': 'true',
  'gc.auto': '0',
  'maintenance.auto': 'false',
  'core.logAllRefUpdates': 'false',
  'core.fsync': 'all',
  'receive.unpackLimit': '1',
  'receive.autogc': 'false',
  'receive.shallowUpdate': 'false',
  'receive.advertisePushOptions': 'true',
  'transfer.fsckObjects': 'true',
};

/** `git http-backend` with bare repositories in `folder`, and no hooks. */
export async function startHttpBackend(folder: string): Promise<GitServer> {
  mkdirSync(folder, { recursive: true });
  const { stdout } = spawnSync('git', ['--exec-path'], { encoding: 'utf8' });
  const env = { ...gitEnvironment(folder), ...configuration(CONFIGURATION) };
  const child = fork(BRIDGE, [folder, `${stdout.trim()}/git-http-backend`], { env, stdio: [0, 2, 2, 'ipc'] });
  const [url] = (await Promise.race([once(child, 'message'), failure(child, 'the bridge')])) as [string];
  return {
    ...running(child),
    url,
    prepare: async (repo) => {
      await runGit(folder, ['init', '--quiet', '--bare', `${repo}.git`]);
    },
  };
}

/** The pusher with its defaults, as an operator starts it. */
export async function startPusher(folder: string, databaseUrl: string): Promise<GitServer> {
  mkdirSync(folder, { recursive: true });
  const child = spawn(process.execPath, [PUSHER], {
    env: {
      ...gitEnvironment(folder),
      DATABASE_URL: databaseUrl,
      SLUICE_DATA_DIR: folder,
      SLUICE_LISTEN: '127.0.0.1:0',
      SLUICE_LOG_FORMAT: 'json',
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const url = await Promise.race([pusherUrl(child), failure(child, 'the pusher')]);
  return { ...running(child), url, prepare: () => Promise.resolve() };
}

async function pusherUrl(child: ChildProcess): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  // Read to the end, as whatever collects a service's log does.
  createInterface({ input: child.stdout! }).on('line', (line) => {
    const { event, url, ...rest } = JSON.parse(line) as { event: string; url?: string; level?: string };
    if (event === 'pusher_started') resolve(url!);
    if (rest.level === 'warn' || rest.level === 'error') process.stderr.write(`${line}\n`);
  });
  return await promise;
}

function running(child: ChildProcess): Pick<GitServer, 'pid'> & AsyncDisposable {
  return {
    pid: child.pid!,
    async [Symbol.asyncDispose]() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill('SIGTERM');
      await once(child, 'exit');
    },
  };
}

async function failure(child: ChildProcess, what: string): Promise<never> {
  const [code, signal] = (await once(child, 'exit')) as [number | null, string | null];
  throw new Error(`${what} ended (${signal ?? code}) before it served anything`);
}

function configuration(entries: Record<string, string>): NodeJS.ProcessEnv {
  const pairs = Object.entries(entries).flatMap(([name, value], index) => [
    [`GIT_CONFIG_KEY_${index}`, name],
    [`GIT_CONFIG_VALUE_${index}`, value],
  ]);
  return { ...Object.fromEntries(pairs), GIT_CONFIG_COUNT: String(pairs.length / 2) } as NodeJS.ProcessEnv;
}
