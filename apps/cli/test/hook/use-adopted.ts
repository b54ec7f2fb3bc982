import { existsSync, mkdirSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  commitFiles,
  gitIn,
  makeRepo,
  makeTempFolder,
  useTempFolder,
  useTestDatabase,
  type Git,
  type GitResult,
  type TestDatabase,
} from '@sluice/testkit';
import { readRefs } from '@sluice/ref-store';
import { afterAll, beforeAll, vi } from 'vitest';
import { runCli, type CliResult } from '../run-cli.ts';

export const BOUND = { timeout: 30_000, interval: 20 };

/** A bare repository that nobody has adopted yet, and a clone of it. */
export interface Scene {
  repoId: string;
  bare: Git;
  work: Git;
  /** URL of the bare repository as a remote that is reached by ssh. */
  remote: string;
  /** Runs git in the clone; what it pushes comes in by ssh, as `user`. */
  push: (
    args: readonly string[],
    options?: { user?: string; config?: readonly string[] },
  ) => Promise<GitResult>;
  install: (...args: string[]) => Promise<CliResult>;
  /** Refs by name, in the database. */
  known: () => Promise<Record<string, string>>;
  /** Refs by name, as git lists them in the bare repository. */
  onDisk: () => Promise<Record<string, string>>;
  /** Writes an executable hook. */
  writeHook: (name: string, script: string) => void;
  events: () => { event: string; [field: string]: unknown }[];
}

export interface AdoptionFixture {
  readonly database: TestDatabase;
  readonly folder: string;
  begin(options?: { objectFormat?: 'sha1' | 'sha256' }): Promise<Scene>;
  cli(
    args: readonly string[],
    env?: Record<string, string>,
    options?: { isTTY?: boolean },
  ): Promise<CliResult>;
}

/** A database per file, a folder per test, repositories by name. */
export function useAdopted(): AdoptionFixture {
  const database = useTestDatabase();
  const folder = useTempFolder();
  // One for all tests of the file: the hook keeps its compiled program there, which halves the time of a push.
  let data: ReturnType<typeof makeTempFolder> | undefined;
  beforeAll(() => {
    data = makeTempFolder();
  });
  afterAll(() => data?.[Symbol.dispose]());
  let count = 0;
  const env = () => ({
    PATH: process.env['PATH'] ?? '',
    DATABASE_URL: database.url,
    SLUICE_DATA_DIR: data!.path,
    SLUICE_DATABASE_WAIT_MS: '2000',
  });
  const cli: AdoptionFixture['cli'] = (args, more = {}, options = {}) =>
    runCli(args, { env: { ...env(), ...more }, ...options });

  return {
    database,
    get folder() {
      return folder.path;
    },
    cli,
    async begin({ objectFormat = 'sha1' } = {}) {
      count += 1;
      const repoId = `adopted/r${count}`;
      const path = join(folder.path, `r${count}.git`);
      mkdirSync(path);
      const bare = gitIn(path);
      await bare(['init', '--quiet', '--bare', '--initial-branch=main', `--object-format=${objectFormat}`]);
      const work = await makeRepo(join(folder.path, `work-${count}`), { objectFormat });
      await commitFiles(work, { 'a.txt': `hello ${count}` });
      const remote = `ssh://host${path}`;
      await work(['remote', 'add', 'origin', remote]);
      const ssh = writeSsh(folder.path);
      return {
        repoId,
        bare,
        work,
        remote,
        push: (args, { user = '', config = [] } = {}) =>
          work.attempt([...config, 'push', ...args], {
            env: { GIT_SSH_COMMAND: ssh, GIT_SSH_VARIANT: 'ssh', SSH_USER_FOR_TEST: user },
          }),
        install: (...args) => cli(['hook', 'install', path, '--repo', repoId, ...args]),
        async known() {
          const refs = await readRefs(database.db, repoId);
          return Object.fromEntries(refs.map(({ name, oid }) => [name, oid]));
        },
        async onDisk() {
          const text = await bare(['for-each-ref', '--format=%(refname) %(objectname)']);
          return Object.fromEntries(
            text
              .split('\n')
              .filter((line) => line !== '')
              .map((line) => line.split(' ')),
          );
        },
        writeHook(name, script) {
          writeFileSync(join(path, 'hooks', name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
        },
        events() {
          const log = join(path, 'sluice/log');
          if (!existsSync(log)) return [];
          const lines = readFileSync(log, 'utf8').split('\n');
          return lines.filter((line) => line !== '').map((line) => JSON.parse(line));
        },
      };
    },
  };
}

/** Stands in for ssh and sshd: the same bytes through pipes, and an environment as a forced command gives it. */
function writeSsh(folder: string): string {
  const path = join(folder, 'ssh');
  const script = `#!/bin/sh
for command; do :; done
exec env -i PATH="$PATH" HOME=/nonexistent GIT_CONFIG_NOSYSTEM=1 \${SSH_USER_FOR_TEST:+SLUICE_PUSHER="$SSH_USER_FOR_TEST"} sh -c "$command"
`;
  writeFileSync(path, script, { mode: 0o755 });
  return path;
}

/** Process id of the program that git runs as proc-receive in a repository, once it runs. */
export async function hookIn(bare: Git): Promise<number> {
  return await vi.waitFor(() => {
    const pid = readdirSync('/proc').find((name) => /^\d+$/.test(name) && isHook(name, bare.folder));
    if (pid === undefined) throw new Error(`no hook runs in ${bare.folder}`);
    return Number(pid);
  }, BOUND);
}

function isHook(pid: string, folder: string): boolean {
  try {
    const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
    return (
      readlinkSync(`/proc/${pid}/cwd`) === folder &&
      command[1]?.endsWith('main.ts') === true &&
      command[2] === 'hook'
    );
  } catch {
    // It has ended, or is another user's.
    return false;
  }
}

/** The lines that a push printed for the server, without their prefix. */
export function remoteLines({ stderr }: GitResult): string[] {
  return stderr
    .split(/\r?\n|\r/)
    .filter((line) => line.startsWith('remote: '))
    .map((line) => line.slice('remote: '.length).trimEnd());
}
