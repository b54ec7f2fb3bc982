import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  commitFiles,
  makeKey,
  makeRepo,
  makeTempFolder,
  spawnApp,
  useTempFolder,
  useTestDatabase,
  type Git,
  type SigningKey,
  type SpawnedApp,
} from '@sluice/testkit';
import { afterAll, beforeAll, beforeEach } from 'vitest';
import { runCli, type CliResult } from './run-cli.ts';

/** A repository on a pusher, and a clone that pushes to it. */
export interface RemoteFixture {
  readonly folder: string;
  /** Its remote is `origin`. */
  readonly clone: Git;
  readonly url: string;
  /** Runs a command in the clone. */
  cli(...args: string[]): Promise<CliResult>;
  /** The same, with something else in the environment. */
  cliWith(env: Readonly<Record<string, string>>, ...args: string[]): Promise<CliResult>;
  /** A PATH with a program in front that runs shell text before it does what it always does. */
  pathWith(program: string, before: string): string;
  key(name: string): SigningKey;
  /** Tells the clone's git to sign with a key, as a person does once. */
  signWith(key: SigningKey): Promise<void>;
  /** What a file holds in the commit of a ref of the remote. */
  read(ref: string, file: string): Promise<string>;
  /** The remote's refs below `refs/meta/`, by name. */
  refs(): Promise<Record<string, string>>;
}

const PUSHER = fileURLToPath(new URL('../../pusher/src/main.ts', import.meta.url));

/** A pusher for each file, a repository of its own for each test. */
export function useRemote(): RemoteFixture {
  const database = useTestDatabase();
  const folder = useTempFolder();
  let pusher: SpawnedApp | undefined;
  let base: string;
  let url: string;
  let clone: Git;
  let count = 0;
  let data: ReturnType<typeof makeTempFolder> | undefined;

  beforeAll(async () => {
    data = makeTempFolder();
    pusher = spawnApp({
      file: PUSHER,
      env: { DATABASE_URL: database.url, SLUICE_DATA_DIR: data.path, SLUICE_LISTEN: '127.0.0.1:0' },
    });
    const [, started] = await pusher.waitForOutput(/"event":"pusher_started".*"url":"([^"]+)"/);
    base = started!;
  });
  afterAll(async () => {
    await pusher?.[Symbol.asyncDispose]();
    data?.[Symbol.dispose]();
  });
  beforeEach(async () => {
    count += 1;
    url = `${base}/governed/r${count}.git`;
    clone = await makeRepo(join(folder.path, 'clone'));
    await commitFiles(clone, { 'a.txt': `one ${count}` });
    await clone(['remote', 'add', 'origin', url]);
  });

  const cliWith: RemoteFixture['cliWith'] = (env, ...args) =>
    runCli(args, {
      cwd: clone.folder,
      env: {
        PATH: process.env['PATH'] ?? '',
        HOME: folder.path,
        GIT_CONFIG_NOSYSTEM: '1',
        GIT_CONFIG_GLOBAL: '/dev/null',
        ...env,
      },
    });
  return {
    get folder() {
      return folder.path;
    },
    get clone() {
      return clone;
    },
    get url() {
      return url;
    },
    cliWith,
    cli: (...args) => cliWith({}, ...args),
    pathWith(program, before) {
      const path = process.env['PATH'] ?? '';
      const script = `#!/bin/sh\nPATH=${path}\n${before}\nexec ${program} "$@"\n`;
      writeFileSync(join(folder.path, program), script, { mode: 0o755 });
      return `${folder.path}:${path}`;
    },
    key: (name) => makeKey(folder.path, name),
    async signWith({ file }) {
      await clone(['config', 'gpg.format', 'ssh']);
      await clone(['config', 'user.signingKey', file]);
    },
    async read(ref, file) {
      await clone(['fetch', '--quiet', 'origin', ref]);
      return await clone(['show', `FETCH_HEAD:${file}`]);
    },
    async refs() {
      const lines = (await clone(['ls-remote', 'origin', 'refs/meta/*'])).split('\n');
      return Object.fromEntries(
        lines.filter((line) => line !== '').map((line) => line.split('\t').toReversed()),
      );
    },
  };
}
