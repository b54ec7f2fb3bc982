import { spawn } from 'node:child_process';
import { constants } from 'node:fs';
import { access, readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { zeroOid, type ObjectFormat, type RefEdit } from '@sluice/ref-store';
import { readGit } from '../git/read-git.ts';
import { findForward } from '../push/find-forward.ts';
import { readObjectFacts } from '../push/object-facts.ts';

export interface PushToJudge {
  folder: string;
  home: string;
  objectFormat: ObjectFormat;
  edits: readonly RefEdit[];
  /** That of the git process whose hook this is: its settings are those of the server. */
  env: Readonly<Record<string, string | undefined>>;
  /** Most memory of git where it looks at what was pushed. */
  memoryBytesMax: number;
}

/**
 * Why refs are refused by rules that git applies to the refs it updates itself, and so not to these: the
 * `receive.deny…` settings and the `update` hook. An adopted repository keeps them.
 */
export async function judgeLikeGit(push: PushToJudge): Promise<Map<string, string>> {
  const config = await readConfig(push);
  const faults = new Map([...(await judgeDeletions(push, config)), ...(await judgeMoves(push, config))]);
  return faults.size > 0 ? faults : await askUpdateHook(push, config);
}

/** Lower-case names with their last value; null: a name that stands alone, which means true. */
type Config = ReadonlyMap<string, string | null>;

const CONFIG_MS_MAX = 30_000;
const CONFIG_BYTES_MAX = 16 * 1024 * 1024;

async function readConfig({ folder, env }: PushToJudge): Promise<Config> {
  const output = await readGit({
    args: ['--git-dir', folder, 'config', '--list', '-z'],
    env: definedIn(env),
    timeoutMs: CONFIG_MS_MAX,
    bytesMax: CONFIG_BYTES_MAX,
  });
  const config = new Map<string, string | null>();
  for (const entry of output.toString('utf8').split('\0')) {
    const [name = '', ...value] = entry.split('\n');
    config.set(name, value.length === 0 ? null : value.join('\n'));
  }
  return config;
}

function isTrue(config: Config, name: string): boolean {
  const value = config.get(name);
  if (value === undefined) return false;
  return value === null || /^(?:true|yes|on|[+-]?0*[1-9]\d*[kmg]?)$/i.test(value);
}

async function judgeDeletions({ folder, edits }: PushToJudge, config: Config): Promise<[string, string][]> {
  const deleted = edits.filter(({ to }) => to === null).map(({ name }) => name);
  if (deleted.length === 0) return [];
  const head = /^ref: (.+)\n?$/.exec(await readFile(join(folder, 'HEAD'), 'utf8'))?.[1];
  const current = config.get('receive.denydeletecurrent');
  const mayDeleteCurrent = typeof current === 'string' && /^(?:ignore|warn|false|no|off|0|)$/i.test(current);
  return deleted.flatMap((name): [string, string][] => {
    if (isTrue(config, 'receive.denydeletes') && name.startsWith('refs/heads/'))
      return [[name, 'deletion prohibited']];
    if (name === head && !mayDeleteCurrent) return [[name, 'deletion of the current branch prohibited']];
    return [];
  });
}

async function judgeMoves(push: PushToJudge, config: Config): Promise<[string, string][]> {
  if (!isTrue(config, 'receive.denynonfastforwards')) return [];
  const moves = push.edits.filter(
    ({ name, expect, to }) => name.startsWith('refs/heads/') && expect !== 'absent' && to !== null,
  );
  const { folder, home, memoryBytesMax } = push;
  const git = { folder, home, memoryBytesMax };
  const facts = await readObjectFacts(
    moves.flatMap(({ expect, to }) => [expect, to!]),
    git,
  );
  const forward = await findForward(moves, facts, git);
  return moves.filter(({ name }) => !forward.has(name)).map(({ name }) => [name, 'non-fast-forward']);
}

/** As git does: once per ref, with its output to the client. The first refusal ends it, since it refuses all. */
async function askUpdateHook(push: PushToJudge, config: Config): Promise<Map<string, string>> {
  const { folder, objectFormat, edits } = push;
  const hook = join(resolve(folder, config.get('core.hookspath') ?? 'hooks'), 'update');
  const isThere = await access(hook, constants.X_OK).then(
    () => true,
    () => false,
  );
  const zero = zeroOid(objectFormat);
  for (const { name, expect, to } of isThere ? edits : []) {
    const code = await run(hook, [name, expect === 'absent' ? zero : expect, to ?? zero], push);
    if (code !== 0) return new Map([[name, 'hook declined']]);
  }
  return new Map();
}

async function run(hook: string, args: string[], { folder, env }: PushToJudge): Promise<number | null> {
  const child = spawn(hook, args, { cwd: folder, env: definedIn(env), stdio: ['ignore', 2, 2] });
  return await new Promise((done, fail) => {
    child.once('error', fail);
    child.once('close', done);
  });
}

/** Not the password of the database, which is nobody else's business. */
function definedIn(env: PushToJudge['env']): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).filter(
      (entry): entry is [string, string] => entry[1] !== undefined && entry[0] !== 'DATABASE_URL',
    ),
  );
}
