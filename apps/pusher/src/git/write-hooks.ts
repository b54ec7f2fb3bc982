import { createHash, randomInt } from 'node:crypto';
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** File descriptors that git and its hooks inherit from the pusher, in the order of {@link HOOK_PIPES}. */
export const HOOK_PIPES = {
  fromPreReceive: 0,
  toPreReceive: 1,
  fromProcReceive: 2,
  toProcReceive: 3,
} as const;

/** Ends the list on descriptor 3: no line of git's begins with a dot. */
export const LIST_END = '.';

/** The answer on descriptor 4 that lets a push go on. Everything else, silence included, refuses it. */
export const VERDICT_OK = 'ok';

const HOOKS = {
  'pre-receive': `#!/bin/sh
# Shows the pusher where the objects are, what git found out about the push certificate, and git's own list of commands,
# and waits for its verdict. When the pusher is gone, the pipes are closed and the push is refused.
printf '%s %s %s\\n' "\${GIT_QUARANTINE_PATH##*/}" "$GIT_PUSH_CERT" "$GIT_PUSH_CERT_NONCE_STATUS" >&3 && cat >&3 && printf '${LIST_END}\\n' >&3 || exit 1
IFS= read -r verdict <&4 || exit 1
[ "$verdict" = ${VERDICT_OK} ]
`,
  'proc-receive': `#!/bin/sh
# Joins git to the pusher, which speaks git's protocol and decides. A background command reads /dev/null unless
# standard input is another descriptor.
exec 7<&0
cat <&7 >&5 2>/dev/null &
exec cat <&6
`,
};

/**
 * Writes the hook scripts into a folder of the pusher's own and returns it. Its name holds their hash, so that a
 * newer pusher never changes scripts under an older one's running pushes. Nor does another of the same version: what
 * is right stays, and what is not is replaced without being away in between.
 */
export async function writeHooks(dataDir: string): Promise<string> {
  const hash = createHash('sha256').update(JSON.stringify(HOOKS)).digest('hex').slice(0, 12);
  const folder = join(dataDir, 'hooks', hash);
  await mkdir(folder, { recursive: true, mode: 0o755 });
  for (const name of await readdir(folder))
    if (!Object.hasOwn(HOOKS, name)) await rm(join(folder, name), { recursive: true, force: true });
  for (const [name, script] of Object.entries(HOOKS)) {
    const path = join(folder, name);
    if (await isRight(path, script)) continue;
    const temporary = `${folder}.${randomInt(2 ** 47)}`;
    await writeFile(temporary, script, { mode: 0o755 });
    await rename(temporary, path);
  }
  return folder;
}

async function isRight(path: string, script: string): Promise<boolean> {
  try {
    return ((await stat(path)).mode & 0o100) !== 0 && (await readFile(path, 'utf8')) === script;
  } catch {
    return false;
  }
}
