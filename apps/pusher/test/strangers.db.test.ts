import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createToken, revokeToken, type CreatedToken } from '@sluice/access';
import { spawnApp, useTempFolder, useTestDatabase, type SpawnedApp } from '@sluice/testkit';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { floodPush } from './flood.ts';
import { preamble } from './raw-push.ts';

const database = useTestDatabase();
const folder = useTempFolder();

const GIGABYTE = 1024 ** 3;
const OPENING = Buffer.concat([
  preamble([{ new: 'a'.repeat(40), name: 'refs/heads/main' }]),
  Buffer.from('PACK'),
]);

/** A pusher with accounts in a process of its own, which writes down every git process that it starts. */
async function startPusher(): Promise<{ app: SpawnedApp; url: string; gitProcesses: () => string[] }> {
  const bin = join(folder.path, 'bin');
  const list = join(folder.path, 'git-processes');
  mkdirSync(bin);
  const path = process.env['PATH'] ?? '';
  writeFileSync(
    join(bin, 'git'),
    `#!/bin/sh\nprintf '%s\\n' "$*" >> '${list}'\nPATH='${path}' exec git "$@"\n`,
  );
  chmodSync(join(bin, 'git'), 0o755);
  const app = spawnApp({
    file: join(import.meta.dirname, '../src/main.ts'),
    env: {
      PATH: `${bin}:${path}`,
      DATABASE_URL: database.url,
      SLUICE_DATA_DIR: join(folder.path, 'data'),
      SLUICE_LISTEN: '127.0.0.1:0',
      SLUICE_LOG_FORMAT: 'json',
      SLUICE_ACCOUNTS: 'required',
    },
  });
  const [, url] = await app.waitForOutput(/"event":"pusher_started","url":"([^"]+)"/);
  expect(readFileSync(list, 'utf8')).toBe('version\n');
  return { app, url: url!, gitProcesses: () => readFileSync(list, 'utf8').trim().split('\n').slice(1) };
}

interface Usage {
  bytesRead: number;
  /** The most that it ever had, in bytes. */
  memoryPeak: number;
  cpuSeconds: number;
}

/** What Linux knows of a process so far. */
function usageOf({ pid }: SpawnedApp): Usage {
  const number = (file: string, pattern: RegExp): number =>
    Number(pattern.exec(readFileSync(`/proc/${pid}/${file}`, 'utf8'))![1]);
  return {
    bytesRead: number('io', /^rchar: (\d+)$/m),
    memoryPeak: number('status', /^VmHWM:\s+(\d+) kB$/m) * 1024,
    // In hundredths, as user and as system.
    cpuSeconds:
      (number('stat', /^.*\) (?:\S+ ){11}(\d+) /) + number('stat', /^.*\) (?:\S+ ){12}(\d+) /)) / 100,
  };
}

async function makeToken(repoPattern: string): Promise<CreatedToken> {
  return await createToken(database.db, {
    name: 'mallory',
    repoPattern,
    scopes: ['admin'],
    expiresInDays: 1,
  });
}

test('who may not push sends a preamble and a gigabyte: no git is started, and next to nothing read', async () => {
  const [elsewhere, expired, revoked] = [
    await makeToken('b/*'),
    await makeToken('a/*'),
    await makeToken('a/*'),
  ];
  await database.db
    .updateTable('access_token')
    .set({ expires_at: sql<Date>`now() - interval '1 second'` })
    .where('token_id', '=', expired.tokenId)
    .execute();
  await revokeToken(database.db, revoked.tokenId);
  const { app, url, gitProcesses } = await startPusher();
  await using _ = app;
  const before = usageOf(app);
  const strangers: [token: string | null, status: number, reason: string][] = [
    [null, 401, 'expected HTTP Basic credentials'],
    ['sluice_guess', 401, 'expected HTTP Basic credentials'],
    [elsewhere.token, 200, 'this token of mallory is for b/*, which does not cover a/api'],
    [expired.token, 200, 'this token has expired; ask for a new one'],
    [revoked.token, 200, 'this token was revoked; ask for a new one'],
  ];
  for (const [token, status, reason] of strangers) {
    const { answer, bytesSent } = await floodPush(`${url}/a/api.git`, {
      opening: OPENING,
      bytes: GIGABYTE,
      headers:
        token === null
          ? {}
          : { authorization: `Basic ${Buffer.from(`mallory:${token}`).toString('base64')}` },
    });
    expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(answer).toContain(reason);
    // What the server read, and what was still in the buffers of the connection.
    expect(bytesSent).toBeLessThan(64 * 1024 ** 2);
  }
  const after = usageOf(app);
  expect(gitProcesses()).toEqual([]);
  expect(after.bytesRead - before.bytesRead).toBeLessThan(strangers.length * 6 * 1024 ** 2);
  expect(after.memoryPeak - before.memoryPeak).toBeLessThan(128 * 1024 ** 2);
  expect(after.cpuSeconds - before.cpuSeconds).toBeLessThan(2);
  expect(await database.db.selectFrom('repo').select('repo_id').execute()).toEqual([]);
});
