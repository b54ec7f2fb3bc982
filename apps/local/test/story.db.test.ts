import { join } from 'node:path';
import { commitFiles, defineEffect, gitIn, makeRepo, useTestDatabase } from '@sluice/testkit';
import { expect, test, vi } from 'vitest';
import { onBranches, queuedBy } from './support/definition.ts';
import { effectsOf, untilEffect } from './support/effects.ts';
import { useSystem } from './support/use-system.ts';

vi.setConfig({ testTimeout: 300_000 });
const database = useTestDatabase();
const system = useSystem(database);

test.each(['sha1', 'sha256'] as const)(
  'a push to a %s repository names its effect, which runs once and whose result stock git fetches',
  async (objectFormat) => {
    const { db } = database;
    const repoId = `story/${objectFormat}`;
    const pusher = await system.startPusher();
    await system.startDispatcher({ pusherUrl: pusher.url });
    const remote = `${pusher.url}/${repoId}.git`;
    const work = await makeRepo(join(system.folder, 'work'), { objectFormat });
    const commit = await commitFiles(work, { 'greeting.txt': 'hello from the tree\n' });
    const definition = await defineEffect(
      work,
      'greet',
      onBranches('cat greeting.txt; echo "$SLUICE_COMMIT on $SLUICE_REF"; ls /'),
    );

    // The first push makes the repository; which hash it has is said by that URL.
    const first = objectFormat === 'sha1' ? remote : `${pusher.url}/_sha256/${repoId}.git`;
    const pushed = await work.attempt(['push', first, 'main', 'refs/meta/effects/greet']);
    expect([pushed.code, pushed.stderr]).toEqual([0, expect.stringMatching(/remote: push [0-9a-f]{40}/)]);
    const pushId = /remote: push ([0-9a-f]{40,64})\s/.exec(pushed.stderr)![1]!;
    expect(pushId).toHaveLength(commit.length);
    const [queued, ...others] = queuedBy(pushed.stderr);
    expect([queued, others]).toEqual([{ id: expect.any(BigInt), name: 'greet', ref: 'refs/heads/main' }, []]);

    const resultRef = `refs/meta/results/greet/${commit}`;
    const effect = await untilEffect(db, repoId, { state: 'done' });
    expect(effect).toMatchObject({ effectId: queued!.id, outcome: 'pass', attempts: 1, resultRef });

    const reader = gitIn(system.folder);
    await reader(['clone', '--quiet', remote, 'clone']);
    const clone = gitIn(join(system.folder, 'clone'));
    await clone(['fetch', '--quiet', 'origin', 'refs/meta/results/*:refs/meta/results/*']);
    expect(JSON.parse(await clone(['show', `${resultRef}:result.json`]))).toMatchObject({
      version: 1,
      effectId: String(queued!.id),
      name: 'greet',
      attempt: 1,
      outcome: 'pass',
      exitCode: 0,
      executor: 'bubblewrap',
      repo: repoId,
      ref: 'refs/heads/main',
      commit,
      definition,
      pushId,
    });
    const log = await clone(['show', `${resultRef}:log`]);
    expect(log).toContain(`hello from the tree\n${commit} on refs/heads/main\n`);
    // The sandbox has the work tree and the host's programs, not its home folders or data.
    expect(log.split('\n')).toContain('work');
    expect(log.split('\n')).not.toContain('root');
    expect((await clone(['for-each-ref', '--format=%(refname)', 'refs/meta/results/'])).split('\n')).toEqual([
      resultRef,
    ]);

    // The same again, also after the branch was away: its effect ran for this commit.
    const again = await work.attempt(['push', remote, 'main', 'refs/meta/effects/greet']);
    expect([again.code, again.stderr]).toEqual([0, expect.stringContaining('Everything up-to-date')]);
    await work(['push', '--quiet', remote, ':refs/heads/main']);
    const back = await work.attempt(['push', remote, 'main']);
    expect([back.code, back.stderr]).toEqual([0, expect.stringContaining('already there')]);
    expect(await effectsOf(db, repoId)).toEqual([effect]);
  },
);

test('a command that fails is an answer: outcome fail, one attempt', async () => {
  const { db } = database;
  const pusher = await system.startPusher();
  await system.startDispatcher({ pusherUrl: pusher.url });
  const work = await makeRepo(join(system.folder, 'work'));
  const commit = await commitFiles(work, { 'a.txt': 'a' });
  await defineEffect(work, 'test', onBranches('echo broken; exit 3'));
  const remote = `${pusher.url}/story/fails.git`;
  await work(['push', '--quiet', remote, 'main', 'refs/meta/effects/test']);
  expect(await untilEffect(db, 'story/fails', { state: 'done' })).toMatchObject({
    outcome: 'fail',
    attempts: 1,
    reason: expect.stringContaining('exit code 3'),
  });
  const ref = `refs/meta/results/test/${commit}`;
  await work(['fetch', '--quiet', remote, `${ref}:${ref}`]);
  expect(JSON.parse(await work(['show', `${ref}:result.json`]))).toMatchObject({
    outcome: 'fail',
    exitCode: 3,
  });
  expect(await work(['show', `${ref}:log`])).toBe('broken');
});

test('a command that does not end is stopped: outcome timeout, one attempt', async () => {
  const { db } = database;
  const pusher = await system.startPusher();
  await system.startDispatcher({ pusherUrl: pusher.url });
  const work = await makeRepo(join(system.folder, 'work'));
  const commit = await commitFiles(work, { 'a.txt': 'a' });
  await defineEffect(work, 'hang', onBranches('echo begun; sleep 100000', { timeout: '2s' }));
  const remote = `${pusher.url}/story/hangs.git`;
  await work(['push', '--quiet', remote, 'main', 'refs/meta/effects/hang']);
  expect(await untilEffect(db, 'story/hangs', { state: 'done' })).toMatchObject({
    outcome: 'timeout',
    attempts: 1,
  });
  const ref = `refs/meta/results/hang/${commit}`;
  await work(['fetch', '--quiet', remote, `${ref}:${ref}`]);
  expect(await work(['show', `${ref}:log`])).toContain('its time limit');
});
