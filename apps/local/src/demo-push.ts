import { setTimeout as sleep } from 'node:timers/promises';
import { resultRef } from '@sluice/effect-spec';
import type { DB } from '@sluice/db';
import type { Kysely } from 'kysely';
import type { DemoRepo, ExpectedEffect, PlannedPush } from './demo-repos.ts';
import { git } from './git.ts';

/** What came of a push: the shape that `npm run demo -- --json` prints. */
export interface PushReport {
  id: string;
  repo: string;
  refs: { name: string; old: string | null; new: string | null }[];
  effects: EffectReport[];
}

export interface EffectReport {
  id: string;
  name: string;
  state: string;
  outcome: string | null;
  attempt: number;
  resultRef: string | null;
}

const FINISHED = new Set(['done', 'dead', 'cancelled', 'superseded', 'skipped']);
const FINISHED_WITHIN_MS = 120_000;

/** Pushes with stock git and returns the push id that the server printed. */
export async function push(
  repo: DemoRepo,
  planned: PlannedPush,
  say: (line: string) => void,
): Promise<string> {
  say(`$ git push sluice ${planned.refspecs.join(' ')}`);
  const { stderr } = await git(repo.folder, ['push', 'sluice', ...planned.refspecs]);
  const remote = stderr.split(/[\r\n]+/).filter((line) => line.startsWith('remote:'));
  for (const line of remote) say(`  ${line.trimEnd()}`);
  const id = /^remote: push ([0-9a-f]{40,64})\b/m.exec(remote.join('\n'))?.[1];
  if (id === undefined) throw new Error(`${repo.repo}: expected the push to print its id, got:\n${stderr}`);
  return id;
}

/** Waits until every effect of the push is finished. */
export async function untilFinished(
  db: Kysely<DB>,
  id: string,
  interrupted: AbortSignal,
): Promise<PushReport> {
  const end = performance.now() + FINISHED_WITHIN_MS;
  for (;;) {
    interrupted.throwIfAborted();
    const report = await reportOf(db, id);
    if (report.effects.every((effect) => FINISHED.has(effect.state))) return report;
    if (performance.now() > end) {
      throw new Error(
        `Push ${id}: not finished within ${FINISHED_WITHIN_MS / 1_000} s: ${JSON.stringify(report.effects)}`,
      );
    }
    await sleep(50);
  }
}

async function reportOf(db: Kysely<DB>, id: string): Promise<PushReport> {
  const { repo_id: repo } = await db
    .selectFrom('op_record')
    .select('repo_id')
    .where('push_id', '=', id)
    .executeTakeFirstOrThrow(() => new Error(`Push ${id} was accepted, and yet it has no record.`));
  const edits = await db
    .selectFrom('reflog')
    .select(['name', 'old_oid', 'new_oid'])
    .where('push_id', '=', id)
    .orderBy('name')
    .execute();
  const effects = await db
    .selectFrom('effect')
    .select(['effect_id', 'name', 'state', 'outcome', 'attempts', 'result_ref'])
    .where('push_id', '=', id)
    .orderBy('effect_id')
    .execute();
  return {
    id,
    repo,
    refs: edits.map((edit) => ({ name: edit.name, old: edit.old_oid, new: edit.new_oid })),
    effects: effects.map((effect) => ({
      id: String(effect.effect_id),
      name: effect.name ?? '',
      state: effect.state ?? '',
      outcome: effect.outcome,
      attempt: effect.attempts ?? 0,
      resultRef: effect.result_ref,
    })),
  };
}

/** Everything in which the push differs from what was expected, after fetching its results with stock git. */
export async function findProblems(
  repo: DemoRepo,
  planned: PlannedPush,
  report: PushReport,
): Promise<string[]> {
  const problems: string[] = [];
  if (report.refs.length === 0) problems.push(`push ${report.id}: expected ref edits, got none`);
  if (report.effects.length !== planned.expect.length) {
    problems.push(
      `push ${report.id}: expected ${planned.expect.length} effects, got ${JSON.stringify(report.effects)}`,
    );
  }
  if (planned.expect.length > 0) {
    await git(repo.folder, ['fetch', '--quiet', 'sluice', 'refs/meta/results/*:refs/meta/results/*']);
  }
  for (const expected of planned.expect) problems.push(...(await checkEffect(repo, expected, report)));
  return problems;
}

async function checkEffect(repo: DemoRepo, expected: ExpectedEffect, report: PushReport): Promise<string[]> {
  const commit = (await git(repo.folder, ['rev-parse', `${expected.at}^{commit}`])).stdout;
  const ref = resultRef(expected.name, commit);
  const effect = report.effects.find((each) => each.resultRef === ref);
  if (effect === undefined)
    return [
      `${repo.repo} ${expected.name}: expected a result at ${ref}, got ${JSON.stringify(report.effects)}`,
    ];
  const result = JSON.parse((await git(repo.folder, ['show', `${ref}:result.json`])).stdout) as Record<
    string,
    unknown
  >;
  const log = (await git(repo.folder, ['show', `${ref}:log`])).stdout;
  const want: Record<string, unknown> = {
    state: 'done',
    attempt: 1,
    outcome: expected.outcome,
    'outcome in result.json': expected.outcome,
    'effect in result.json': effect.id,
    'push in result.json': report.id,
    'log holds what it must': true,
  };
  const got: Record<string, unknown> = {
    state: effect.state,
    attempt: effect.attempt,
    outcome: effect.outcome,
    'outcome in result.json': result['outcome'],
    'effect in result.json': result['effectId'],
    'push in result.json': result['pushId'],
    'log holds what it must': log.includes(expected.says),
  };
  return Object.keys(want)
    .filter((key) => want[key] !== got[key])
    .map(
      (key) => `${repo.repo} ${expected.name}: expected ${key} ${String(want[key])}, got ${String(got[key])}`,
    );
}
