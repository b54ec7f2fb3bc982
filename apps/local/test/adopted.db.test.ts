import { execFile } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { commitFiles, defineEffect, gitIn, makeRepo, useTestDatabase } from '@sluice/testkit';
import { expect, test, vi } from 'vitest';
import { onBranches, queuedBy } from './support/definition.ts';
import { untilEffect } from './support/effects.ts';
import { useSystem } from './support/use-system.ts';

vi.setConfig({ testTimeout: 300_000 });
const database = useTestDatabase();
const system = useSystem(database);
const SLUICE = fileURLToPath(new URL('../../cli/bin/sluice', import.meta.url));
const BOUND = { timeout: 60_000, interval: 50 };

async function hook(...args: string[]): Promise<string> {
  const env = {
    PATH: process.env['PATH'] ?? '',
    DATABASE_URL: database.url,
    SLUICE_DATA_DIR: join(system.folder, 'data'),
  };
  const { stdout } = await promisify(execFile)(SLUICE, ['hook', ...args], { env });
  return stdout;
}

/** Stands in for ssh: the same bytes through pipes, and an environment of the server's. */
function writeSsh(): string {
  const path = join(system.folder, 'ssh');
  const script =
    '#!/bin/sh\nfor command; do :; done\nexec env -i PATH="$PATH" HOME=/nonexistent SLUICE_PUSHER=alice sh -c "$command"\n';
  writeFileSync(path, script, { mode: 0o755 });
  return path;
}

test('a push to an adopted repository by ssh runs its effect, and the result is fetched from where it was pushed', async () => {
  const { db } = database;
  const repoId = 'acme/api';
  const bare = gitIn(join(system.folder, 'api.git'));
  mkdirSync(bare.folder);
  await bare(['init', '--quiet', '--bare', '--initial-branch=main']);
  const work = await makeRepo(join(system.folder, 'work'));
  await commitFiles(work, { 'greeting.txt': 'hello\n' });
  await work(['push', '--quiet', bare.folder, 'main']);
  await hook('install', bare.folder, '--repo', repoId);

  const pusher = await system.startPusher();
  await system.startDispatcher({ pusherUrl: pusher.url });
  const byHttp = `${pusher.url}/${repoId}.git`;
  const bySsh = `ssh://git@host${bare.folder}`;
  const ssh = { env: { GIT_SSH_COMMAND: writeSsh(), GIT_SSH_VARIANT: 'ssh' } };

  await defineEffect(work, 'greet', onBranches('cat greeting.txt; echo "for $SLUICE_SIGNER"'));
  const commit = await commitFiles(work, { 'greeting.txt': 'hello from the tree\n' });
  const pushed = await work.attempt(['push', bySsh, 'main', 'refs/meta/effects/greet'], ssh);
  expect([pushed.code, pushed.stderr]).toEqual([0, expect.stringMatching(/remote: push [0-9a-f]{40}/)]);
  const [queued, ...others] = queuedBy(pushed.stderr);
  expect([queued, others]).toEqual([{ id: expect.any(BigInt), name: 'greet', ref: 'refs/heads/main' }, []]);
  const resultRef = `refs/meta/results/greet/${commit}`;
  const effect = await untilEffect(db, repoId, { state: 'done' });
  expect(effect).toMatchObject({ effectId: queued!.id, outcome: 'pass', attempts: 1, resultRef });

  // The pusher answers the dispatcher first and writes the refs then.
  await vi.waitFor(
    async () => expect(await work(['ls-remote', bySsh, resultRef], ssh)).toContain(resultRef),
    BOUND,
  );
  await work(['fetch', '--quiet', bySsh, 'refs/meta/results/*:refs/meta/results/*'], ssh);
  expect(await work(['show', `${resultRef}:log`])).toBe('hello from the tree\nfor user:alice');

  // Both ways lead to the same repository. From here on nothing is to run.
  const next = await commitFiles(work, { 'greeting.txt': 'by http\n' });
  expect((await work.attempt(['push', byHttp, 'main', ':refs/meta/effects/greet'])).code).toBe(0);
  await vi.waitFor(async () => expect(await bare(['rev-parse', 'main'])).toBe(next), BOUND);
  const last = await commitFiles(work, { 'greeting.txt': 'by ssh\n' });
  expect((await work.attempt(['push', bySsh, 'main'], ssh)).code).toBe(0);
  expect(await work(['ls-remote', byHttp, 'refs/heads/main'])).toContain(last);

  // Removed, it is not the pusher's to serve or to change any more.
  await hook('remove', bare.folder);
  const refused = await work.attempt(['ls-remote', byHttp]);
  expect(refused.stderr).toContain('410');
  expect((await work.attempt(['push', byHttp, 'main:other'])).code).not.toBe(0);
  const plain = await commitFiles(work, { 'greeting.txt': 'without\n' });
  expect((await work.attempt(['push', bySsh, 'main'], ssh)).stderr).not.toContain('remote: push');
  expect(await bare(['rev-parse', 'main'])).toBe(plain);
});
