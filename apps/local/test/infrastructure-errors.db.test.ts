import { chmodSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { startTcpProxy, useTestDatabase } from '@sluice/testkit';
import { expect, test, vi } from 'vitest';
import { untilEffect } from './support/effects.ts';
import { pushEffect } from './support/push-effect.ts';
import { until } from './support/until.ts';
import { useSystem } from './support/use-system.ts';

vi.setConfig({ testTimeout: 300_000 });
const database = useTestDatabase();
const system = useSystem(database);

const push = (pusherUrl: string, repoId: string, more: Record<string, unknown> = {}): Promise<void> =>
  pushEffect(system.folder, { pusherUrl, repoId, run: 'echo ran', more });

async function untilAttemptFailed(repoId: string): Promise<{ last_error: string | null }> {
  return await until('an attempt has failed', async () => {
    const row = await database.db
      .selectFrom('effect_queue')
      .select(['attempts', 'last_error'])
      .where('repo_id', '=', repoId)
      .executeTakeFirst();
    return row !== undefined && row.attempts > 0 && row;
  });
}

/** A `bwrap` ahead of the real one on the PATH, which fails while a file is there. */
function breakableSandbox(): { path: string; break(): void; repair(): void } {
  const bin = join(system.folder, 'bin');
  const broken = join(system.folder, 'broken');
  mkdirSync(bin);
  const path = process.env['PATH'] ?? '/usr/bin:/bin';
  const program = join(bin, 'bwrap');
  writeFileSync(
    program,
    `#!/bin/sh\nif [ -e '${broken}' ]; then echo 'no user namespaces today' >&2; exit 1; fi\nPATH='${path}'\nexec bwrap "$@"\n`,
  );
  chmodSync(program, 0o755);
  return {
    path: `${bin}:${path}`,
    break: () => writeFileSync(broken, ''),
    repair: () => rmSync(broken),
  };
}

test('a pusher that cannot be reached is waited for, and the effect runs when it is back', async () => {
  const pusher = await system.startPusher();
  await using proxy = await startTcpProxy({ host: '127.0.0.1', port: Number(new URL(pusher.url).port) });
  await proxy.refuse();
  await system.startDispatcher({ pusherUrl: proxy.through(pusher.url).replace(/\/$/, '') });
  await push(pusher.url, 'infra/unreachable');
  await untilEffect(database.db, 'infra/unreachable', { state: 'claimed' });
  await proxy.accept();
  expect(await untilEffect(database.db, 'infra/unreachable', { state: 'done' })).toMatchObject({
    outcome: 'pass',
  });
});

test('an effect whose commit cannot be fetched is retried, and passes when it can', async () => {
  const { db } = database;
  const kind = await system.startPusher({ SLUICE_TOKEN: 'mine' });
  const strict = await system.startPusher({ SLUICE_TOKEN: 'another' });
  const target = { host: '127.0.0.1', port: Number(new URL(kind.url).port) };
  await using proxy = await startTcpProxy(target);
  await system.startDispatcher({
    pusherUrl: proxy.through(kind.url).replace(/\/$/, ''),
    env: { SLUICE_TOKEN: 'mine' },
  });
  target.port = Number(new URL(strict.url).port);
  await push(strict.url.replace('//', '//ada:another@'), 'infra/refused', { maxAttempts: 50 });
  const failed = await untilAttemptFailed('infra/refused');
  expect(failed.last_error).toContain('git fetch');
  target.port = Number(new URL(kind.url).port);
  const done = await untilEffect(db, 'infra/refused', { state: 'done' });
  expect(done.outcome).toBe('pass');
  expect(done.attempts).toBeGreaterThan(1);
});

test('a sandbox that does not start is retried and is never a failure of the effect', async () => {
  const { db } = database;
  const pusher = await system.startPusher();
  const sandbox = breakableSandbox();
  await system.startDispatcher({ pusherUrl: pusher.url, env: { PATH: sandbox.path } });
  sandbox.break();
  await push(pusher.url, 'infra/sandbox', { maxAttempts: 50 });
  const failed = await untilAttemptFailed('infra/sandbox');
  expect(failed.last_error).toContain('no user namespaces today');
  sandbox.repair();
  const done = await untilEffect(db, 'infra/sandbox', { state: 'done' });
  expect(done.outcome).toBe('pass');
  expect(done.attempts).toBeGreaterThan(1);
});

test('when its attempts are spent on a sandbox that does not start, the effect is dead, with the reason', async () => {
  const pusher = await system.startPusher();
  const sandbox = breakableSandbox();
  await system.startDispatcher({ pusherUrl: pusher.url, env: { PATH: sandbox.path } });
  sandbox.break();
  await push(pusher.url, 'infra/dead', { maxAttempts: 2 });
  expect(await untilEffect(database.db, 'infra/dead', { state: 'dead' })).toMatchObject({
    outcome: null,
    attempts: 2,
    reason: expect.stringContaining('no user namespaces today'),
  });
});
