import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { WorkOrder } from '@sluice/effect-spec';
import { createGitDir, runGit } from '@sluice/executors';

/** What a result says; `result.json` holds it. */
export interface EffectResult {
  effectId: string;
  name: string;
  attempt: number;
  outcome: 'pass' | 'fail' | 'timeout';
  /** Null when the command did not end by itself. */
  exitCode: number | null;
  reason: string | null;
  startedAt: string;
  finishedAt: string;
  executor: string;
  /** Bytes of output that the log lacks. */
  logBytesMissing: number;
}

/**
 * Makes a git folder for one result, beside the run's work tree: its objects go away with the run, and nothing piles
 * up in the cache.
 */
export async function createResultRepository(
  runFolder: string,
  objectFormat: 'sha1' | 'sha256',
): Promise<string> {
  const gitDir = join(runFolder, 'result.git');
  await mkdir(gitDir);
  await createGitDir(gitDir, objectFormat);
  return gitDir;
}

/** Stores a result as a commit whose tree holds `result.json` and `log`; returns its OID. */
export async function buildResult(
  gitDir: string,
  contents: { order: WorkOrder; result: EffectResult; log: Uint8Array; parent: string | null },
): Promise<string> {
  const { order, result, log, parent } = contents;
  const facts = {
    version: 1,
    ...result,
    repo: order.repo,
    ref: order.trigger.ref,
    commit: order.source.commit,
    tree: order.source.tree,
    definition: order.effect.definition,
    pushId: order.push.id,
    hops: order.hops,
  };
  const [json, output] = await Promise.all([
    storeBlob(gitDir, `${JSON.stringify(facts, null, 2)}\n`),
    storeBlob(gitDir, log),
  ]);
  const tree = await runGit({
    gitDir,
    args: ['mktree'],
    input: `100644 blob ${output}\tlog\n100644 blob ${json}\tresult.json\n`,
  });
  const subject = `${result.name}: ${result.outcome}`;
  const message = `${subject}\n\nEffect: ${result.effectId}\nAttempt: ${result.attempt}\nCommit: ${order.source.commit}\nPush: ${order.push.id}\n`;
  const date = `${Math.floor(Date.parse(result.finishedAt) / 1000)} +0000`;
  const commit = await runGit({
    gitDir,
    args: ['commit-tree', tree.trim(), ...(parent === null ? [] : ['-p', parent])],
    input: message,
    env: {
      GIT_AUTHOR_NAME: 'Sluice dispatcher',
      GIT_AUTHOR_EMAIL: 'dispatcher@sluice.invalid',
      GIT_AUTHOR_DATE: date,
      GIT_COMMITTER_NAME: 'Sluice dispatcher',
      GIT_COMMITTER_EMAIL: 'dispatcher@sluice.invalid',
      GIT_COMMITTER_DATE: date,
    },
  });
  return commit.trim();
}

async function storeBlob(gitDir: string, bytes: string | Uint8Array): Promise<string> {
  return (await runGit({ gitDir, args: ['hash-object', '-w', '--stdin'], input: bytes })).trim();
}

const REASON_CHARACTERS_MAX = 2_000;

/** A reason as a result can hold it: one well-formed text of bounded length. */
export function resultReason(reason: string | null): string | null {
  const text = (reason ?? '').toWellFormed().replaceAll('\0', '').trim();
  return text === '' ? null : text.slice(0, REASON_CHARACTERS_MAX).toWellFormed();
}
