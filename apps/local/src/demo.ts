// npm run demo: the whole story by itself, on a throw-away database, free ports and a temporary folder.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createDatabase, migrate, type DB } from '@sluice/db';
import { freePort, startThrowawayPostgres } from '@sluice/local-postgres';
import type { Kysely } from 'kysely';
import { findProblems, push, untilFinished, type PushReport } from './demo-push.ts';
import { ownHistory, smallSite, type DemoRepo } from './demo-repos.ts';
import { git } from './git.ts';
import { onInterrupt } from './on-interrupt.ts';
import { startServices } from './start-services.ts';

const isJson = process.argv.includes('--json');
const startedAt = performance.now();
const pushes: PushReport[] = [];
const problems: string[] = [];
const interrupted = onInterrupt(() => process.exit(130));

try {
  await demo();
} catch (error) {
  if (!interrupted.aborted) problems.push(error instanceof Error ? error.message : String(error));
}
if (interrupted.aborted) {
  process.stderr.write('Interrupted. Everything is removed again.\n');
  process.exit(130);
}
const elapsedMs = Math.round(performance.now() - startedAt);
for (const problem of problems) process.stderr.write(`NOT AS EXPECTED: ${problem}\n`);
if (problems.length === 0)
  say(
    `\nAll as expected: ${pushes.length} pushes in ${(elapsedMs / 1_000).toFixed(1)} s. Everything is removed again.`,
  );
if (isJson) process.stdout.write(`${JSON.stringify({ pushes, elapsedMs })}\n`);
process.exitCode = problems.length === 0 ? 0 : 1;

async function demo(): Promise<void> {
  await using cleanup = new AsyncDisposableStack();
  const folder = mkdtempSync(join(tmpdir(), 'sluice-demo-'));
  cleanup.defer(() => rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 }));

  say('Starting PostgreSQL 18 for this demo alone.');
  const server = cleanup.use(await startThrowawayPostgres({ version: 18 }));
  const db = createDatabase({ connectionString: server.url, applicationName: 'sluice-demo' });
  cleanup.defer(() => db.destroy());
  await migrate(db);

  say('Starting pusher and dispatcher.');
  const services = await startServices({
    databaseUrl: server.url,
    listen: `127.0.0.1:${await freePort()}`,
    dataDir: join(folder, 'data'),
    logFile: join(folder, 'services.log'),
    env: withoutSettings(process.env),
    onTrouble: ({ service, level, event, message }) => {
      // The database is thrown away, so it is not durable on purpose.
      if (event === 'database_not_durable') return;
      // Ctrl-C reaches the git that pushes, too, and its broken request is no news.
      if (!interrupted.aborted) say(`${service}: ${level}: ${event} ${message}`.trimEnd());
    },
  });
  cleanup.defer(() => services.stop());

  const repos = [await ownHistory(join(folder, 'sluice')), await smallSite(join(folder, 'site'))];
  for (const repo of repos) await tell(repo, services.pusherUrl, db);
}

async function tell(repo: DemoRepo, pusherUrl: string, db: Kysely<DB>): Promise<void> {
  const url = `${pusherUrl}/${repo.repo}.git`;
  say(`\n${repo.repo}\n$ git remote add sluice ${url}`);
  await git(repo.folder, ['remote', 'add', 'sluice', url]);
  for (const planned of repo.pushes) {
    interrupted.throwIfAborted();
    const report = await untilFinished(db, await push(repo, planned, say), interrupted);
    pushes.push(report);
    for (const effect of report.effects) {
      say(`  ${effect.name} ${effect.outcome ?? effect.state} → ${effect.resultRef ?? 'no result'}`);
    }
    problems.push(...(await findProblems(repo, planned, report)));
  }
}

/** A demo with somebody's settings would show something else. */
function withoutSettings(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(env).filter(([name]) => !name.startsWith('SLUICE_') && name !== 'DATABASE_URL'),
  );
}

function say(line: string): void {
  (isJson ? process.stderr : process.stdout).write(`${line}\n`);
}
