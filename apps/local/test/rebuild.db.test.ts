import { commitFiles, defineEffect, useTestDatabase } from '@sluice/testkit';
import { expect, test, vi } from 'vitest';
import { onBranches } from './support/definition.ts';
import { effectsOf } from './support/effects.ts';
import { makeRebuildScene } from './support/rebuild-scene.ts';
import { until } from './support/until.ts';
import { useSystem } from './support/use-system.ts';

vi.setConfig({ testTimeout: 300_000 });
const database = useTestDatabase();
const system = useSystem(database);

test('a queue that was lost comes back: every effect without a result, once, as it was', async () => {
  const { db } = database;
  const repoId = 'rebuild/api';
  const scene = await makeRebuildScene(database, system, repoId);
  const { pusher, work, push, queue, loseQueue, rebuild } = scene;
  const dispatcher = await system.startDispatcher({ pusherUrl: pusher.url });
  await defineEffect(work, 'ci', onBranches('true'));
  await commitFiles(work, { 'a.txt': 'one' });
  await push('main', 'refs/meta/effects/ci');
  await commitFiles(work, { 'a.txt': 'two' });
  await push('main');
  await until('both are done', async () =>
    (await effectsOf(db, repoId)).every(({ state }) => state === 'done'),
  );
  await dispatcher[Symbol.asyncDispose]();

  // The commit of the last result on another branch: the same result ref, and yet another effect.
  await push('main:refs/heads/copy');
  await defineEffect(work, 'ci', onBranches('echo changed', { priority: 7, maxAttempts: 5 }));
  await defineEffect(work, 'tags', JSON.stringify({ on: ['refs/tags/*'], run: 'true', dedup: 'push' }));
  await push('refs/meta/effects/*');
  await commitFiles(work, { 'a.txt': 'three' });
  await work(['tag', '-a', '-m', 'one', 'v1']);
  await push('main', 'v1');
  await push(':v1');
  await push('v1');
  await defineEffect(work, 'ci', onBranches('echo never'));
  await push('refs/meta/effects/ci');

  const before = await queue();
  expect(before.map(({ name }) => name)).toEqual(['ci', 'ci', 'tags', 'tags']);
  await loseQueue();

  const dry = await rebuild('--dry-run');
  expect([dry.code, dry.stdout]).toEqual([
    0,
    expect.stringContaining('4 effects would come back; 2 with a result'),
  ]);
  expect(await queue()).toEqual([]);
  const first = await rebuild();
  expect([first.code, first.output]).toEqual([
    0,
    expect.stringContaining('4 effects came back; 2 with a result'),
  ]);
  expect(first.stdout).toMatch(/^ {2}effect \d+ tags for refs\/tags\/v1 of push [0-9a-f]{40}$/m);
  expect(await queue()).toEqual(before);
  expect((await rebuild()).stdout).toContain('0 effects came back; 2 with a result, 4 in the queue');
  expect(await queue()).toEqual(before);

  await system.startDispatcher({ pusherUrl: pusher.url });
  await until('all are done', async () =>
    (await effectsOf(db, repoId)).every(({ state }) => state === 'done'),
  );
  expect(await effectsOf(db, repoId)).toHaveLength(4);
  await loseQueue();
  expect((await rebuild()).stdout).toContain('0 effects came back; 6 with a result');
});
