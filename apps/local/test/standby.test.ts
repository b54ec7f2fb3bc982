import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createDatabase, migrate, unsafeSettings } from '@sluice/db';
import { startLocalPostgres } from '@sluice/local-postgres';
import { spawnApp, useTempFolder } from '@sluice/testkit';
import { expect, test } from 'vitest';

const folder = useTempFolder();
const program = (name: string) => fileURLToPath(new URL(`../../${name}/src/main.ts`, import.meta.url));

const envOf = (url: string) => ({
  DATABASE_URL: url,
  SLUICE_DATA_DIR: join(folder.path, 'data'),
  SLUICE_LISTEN: '127.0.0.1:0',
  SLUICE_PUSHER_URL: 'http://127.0.0.1:1',
  SLUICE_LOCAL: '1',
  SLUICE_WORK_DIR: join(folder.path, 'work'),
  SLUICE_LOG_FORMAT: 'json',
});

test('on a server without fsync a pusher warns; on a standby neither program starts, and each says that it is one', async () => {
  const dataDir = join(folder.path, 'postgres');
  const settings = { fsync: 'off' };
  const primary = await startLocalPostgres({ dataDir, settings });
  {
    await using db = createDatabase({ connectionString: primary.url, applicationName: 'test' });
    await migrate(db);
    expect(await unsafeSettings(db)).toEqual(['fsync']);
  }
  {
    await using pusher = spawnApp({ file: program('pusher'), env: envOf(primary.url) });
    await pusher.waitForOutput(/"event":"database_not_durable","off":\["fsync"\]/);
    await pusher.waitForOutput(/"event":"pusher_started"/);
  }
  await primary.stop();
  writeFileSync(join(dataDir, 'data', 'standby.signal'), '');
  await using standby = await startLocalPostgres({ dataDir, settings });
  const env = envOf(standby.url);
  await using pusher = spawnApp({ file: program('pusher'), env });
  await using dispatcher = spawnApp({ file: program('dispatcher'), env });
  for (const app of [pusher, dispatcher]) {
    expect(await app.exited()).toEqual({ code: 1, signal: null });
    expect(app.output()).toContain(
      'DATABASE_URL: expected a server that accepts writes, got a standby. Point it at the primary server, or promote this one.',
    );
    expect(app.output()).not.toMatch(/^ {4}at /m);
  }
});
