import { chmod, lstat, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ADOPTED } from '@sluice/pusher/adopted';
import { CommandError } from '../command-error.ts';
import type { Git } from '../git.ts';
import type { BareRepository } from './inspect-repository.ts';

/** In the second line of a hook says whose it is. */
const MARK = '# Written by sluice hook install';

/** A pre-receive hook that was there before; ours runs it. */
const KEPT = 'pre-receive.before-sluice';

const PRE_RECEIVE = `#!/bin/sh
${MARK}: notes git's own list of the push, and what git found out about
# a push certificate, for proc-receive, which the same git starts. A push without such a note is refused.
note="$GIT_DIR/${ADOPTED.pushes}/$PPID"
(umask 077; printf '%s %s\\n' "$GIT_PUSH_CERT" "$GIT_PUSH_CERT_NONCE_STATUS" > "$note" && cat >> "$note") || exit 1
kept="$(dirname -- "$0")/${KEPT}"
[ ! -x "$kept" ] || tail -n +2 -- "$note" | "$kept" || { rm -f -- "$note"; exit 1; }
`;

function procReceive(program: string): string {
  return `#!/bin/sh
${MARK}: hands the push to Sluice, which commits it to PostgreSQL and then writes the
# refs. Without its answer git refuses the push.
settings="$GIT_DIR/${ADOPTED.settings}"
if [ ! -r "$settings" ]; then
  echo "sluice: expected to run as the owner of this repository, who alone can read $settings" >&2
  exit 1
fi
set -a
. "$settings"
# Half of the time of a push would go into reading the program.
NODE_COMPILE_CACHE="$SLUICE_DATA_DIR/compile-cache"
exec ${shellWord(program)} hook
`;
}

export interface HookFiles {
  /** The `sluice` command. */
  program: string;
  /** Environment variables, in the order in which the shell sets them. */
  settings: readonly (readonly [name: string, value: string])[];
  /** An environment variable of the server's that says who pushes; by default SLUICE_PUSHER. */
  pusherFrom: string | null;
}

/** Fails if the repository has hooks that the ones of Sluice cannot stand beside. */
export async function assertNoOtherHook({ hooksFolder }: BareRepository): Promise<void> {
  if ((await readHook(hooksFolder, 'proc-receive')) === 'other') {
    throw new CommandError(
      `expected no proc-receive hook, got one that is not Sluice's: ${join(hooksFolder, 'proc-receive')}`,
      'Remove it: every push is handed to the one hook of that name.',
    );
  }
  if ((await readHook(hooksFolder, 'reference-transaction')) === 'other') {
    throw new CommandError(
      `expected no reference-transaction hook, got ${join(hooksFolder, 'reference-transaction')}`,
      'Remove it: Sluice writes the refs itself, and git would not run it any more.',
    );
  }
}

/** Writes the settings and the hooks. Nothing uses them before {@link turnOn}. */
export async function writeHookFiles(
  { folder, hooksFolder }: BareRepository,
  files: HookFiles,
): Promise<void> {
  await mkdir(join(folder, ADOPTED.pushes), { recursive: true });
  await replace(join(folder, ADOPTED.settings), settingsText(files), 0o600);
  await mkdir(hooksFolder, { recursive: true });
  if ((await readHook(hooksFolder, 'pre-receive')) === 'other')
    await rename(join(hooksFolder, 'pre-receive'), join(hooksFolder, KEPT));
  await replace(join(hooksFolder, 'pre-receive'), PRE_RECEIVE, 0o755);
  await replace(join(hooksFolder, 'proc-receive'), procReceive(files.program), 0o755);
}

/** From here on git hands pushes over, and they are refused until {@link markAdopted}. */
export async function turnOn({ folder, git }: BareRepository): Promise<void> {
  const included = await git.run(['--git-dir', folder, ...INCLUDE, '--get-all', 'include.path', MINE]);
  if (included.code !== 0)
    await git.must(['--git-dir', folder, ...INCLUDE, '--add', 'include.path', ADOPTED.config]);
}

/** From here on the database has the refs that count: the hook commits to it, and pushers write what it says. */
export async function markAdopted({ folder }: BareRepository, repoId: string): Promise<void> {
  await replace(join(folder, ADOPTED.repo), `${repoId}\n`, 0o644);
}

/** Whether there is anything of Sluice's, also what an installation or a removal that was cut off has left. */
export async function hasHookFiles({ folder }: BareRepository): Promise<boolean> {
  return (await lstat(join(folder, ADOPTED.folder)).catch(() => undefined)) !== undefined;
}

/** Takes away all that is Sluice's, so that git updates refs itself again. */
export async function removeHookFiles({ folder, hooksFolder, git }: BareRepository): Promise<void> {
  // First, so that no pusher writes refs that git has begun to write; until the end, pushes are refused.
  await rm(join(folder, ADOPTED.repo), { force: true });
  await turnOff(folder, git);
  for (const name of ['proc-receive', 'pre-receive']) {
    if ((await readHook(hooksFolder, name)) === 'ours') await rm(join(hooksFolder, name));
  }
  const kept = join(hooksFolder, KEPT);
  const isKept = (await readHook(hooksFolder, KEPT)) !== 'none';
  if (isKept && (await readHook(hooksFolder, 'pre-receive')) === 'none')
    await rename(kept, join(hooksFolder, 'pre-receive'));
  await rm(join(folder, ADOPTED.folder), { recursive: true, force: true });
}

const INCLUDE = ['config', '--local'] as const;
const MINE = `^${ADOPTED.config}$`;

async function turnOff(folder: string, git: Git): Promise<void> {
  // 5: there was no such line.
  const { code, stderr } = await git.run([
    '--git-dir',
    folder,
    ...INCLUDE,
    '--unset-all',
    'include.path',
    MINE,
  ]);
  if (code === 0 || code === 5) return;
  throw new CommandError(
    `git config failed: ${stderr.trim()}`,
    `Remove ${ADOPTED.config} from include.path.`,
  );
}

async function readHook(hooksFolder: string, name: string): Promise<'ours' | 'other' | 'none'> {
  const path = join(hooksFolder, name);
  if ((await lstat(path).catch(() => undefined)) === undefined) return 'none';
  const text = await readFile(path, 'utf8').catch(() => '');
  return text.split('\n')[1]?.startsWith(MARK) === true ? 'ours' : 'other';
}

function settingsText({ settings, pusherFrom }: HookFiles): string {
  const lines = [
    '# Settings of the hook: environment variables, read by the shell at each push. docs/settings.md explains them.',
    ...settings.map(([name, value]) => `${name}=${shellWord(value)}`),
    ...(pusherFrom === null ? [] : [`SLUICE_PUSHER="\${${pusherFrom}-}"`]),
  ];
  return `${lines.join('\n')}\n`;
}

function shellWord(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

async function replace(path: string, text: string, mode: number): Promise<void> {
  const temporary = `${path}.sluice-new`;
  await writeFile(temporary, text, { mode });
  // The mode above is subject to the umask, and to an older file's own.
  await chmod(temporary, mode);
  await rename(temporary, path);
}
