/**
 * Pushes a large random file and prints how much memory the pusher took for it. Not a test: it takes a while and
 * judges a number. `DATABASE_URL=… node apps/pusher/test/big-push.ts [megabytes]` on a migrated database.
 */
import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { commitFiles, makeRepo, makeTempFolder, spawnApp } from '@sluice/testkit';

const megabytes = Number(process.argv[2] ?? 200);
const RSS_GROWTH_MB_MAX = 128;

using folder = makeTempFolder();
await using app = spawnApp({
  file: join(import.meta.dirname, '../src/main.ts'),
  env: {
    DATABASE_URL: process.env['DATABASE_URL'] ?? '',
    SLUICE_DATA_DIR: join(folder.path, 'data'),
    SLUICE_LISTEN: '127.0.0.1:0',
    SLUICE_LOG_FORMAT: 'json',
  },
});
const [, url] = await app.waitForOutput(/"event":"pusher_started","url":"([^"]+)"/);
const work = await makeRepo(join(folder.path, 'work'));
await commitFiles(work, { 'a.txt': 'small' });
const remote = `${url}/big-${randomBytes(4).toString('hex')}.git`;
await work(['push', '--quiet', remote, 'main']);
const before = peakMegabytes(app.pid);

const file = openSync(join(work.folder, 'big'), 'w');
for (let n = 0; n < megabytes; n += 1) writeSync(file, randomBytes(1024 * 1024));
closeSync(file);
await commitFiles(work, {});
await work(['push', '--quiet', remote, 'main']);
const after = peakMegabytes(app.pid);

process.stdout.write(
  `${megabytes} MB pushed; peak memory of the pusher ${before} MB before, ${after} MB after\n`,
);
if (after - before > RSS_GROWTH_MB_MAX) {
  process.stderr.write(`expected at most ${RSS_GROWTH_MB_MAX} MB more\n`);
  process.exitCode = 1;
}

function peakMegabytes(pid: number): number {
  return Math.round(Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024);
}
