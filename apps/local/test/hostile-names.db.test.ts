import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { commitFiles, defineEffect, gitIn, makeRepo, useTestDatabase } from '@sluice/testkit';
import { expect, test, vi } from 'vitest';
import { onBranches } from './support/definition.ts';
import { effectsOf } from './support/effects.ts';
import { until } from './support/until.ts';
import { useSystem } from './support/use-system.ts';

vi.setConfig({ testTimeout: 300_000 });
const database = useTestDatabase();
const system = useSystem(database);

test('what a push chose reaches a command as variables and is interpreted by no shell', async () => {
  const { db } = database;
  const pusher = await system.startPusher();
  await system.startDispatcher({ pusherUrl: pusher.url });
  const remote = `${pusher.url}/hostile.git`;
  const work = await makeRepo(join(system.folder, 'work'));
  const bait = join(system.folder, 'bait');
  // git allows no space, colon, asterisk or backslash in a name; the rest of the shell is allowed.
  const branches = [
    `$(touch$IFS${bait})`,
    '`id`',
    `x;touch$IFS${bait};#`,
    '"$(id)"',
    "'||id||'",
    'a&&id&b|id',
    '-c/--upload-pack=id',
    '${SLUICE_COMMIT}',
    '%s%n<script>',
    'naïve/日本',
    'fruit-\u{1F34C}',
    // One looks like the other and is another.
    'caf\u00e9',
    'cafe\u0301',
    'a#b%2Fc',
  ];
  const commit = await commitFiles(
    work,
    { 'a.txt': 'a', '$(id).txt': 'b', '-rf': 'c' },
    `$(touch ${bait})\n\`touch ${bait}\`; touch ${bait}\nSLUICE_REF=refs/heads/forged`,
  );
  await defineEffect(work, 'shell', onBranches('printf "[%s]\\n" "$SLUICE_REF"', { dedup: 'ref' }));
  await defineEffect(
    work,
    'words',
    JSON.stringify({ on: ['refs/heads/**'], argv: ['printenv', 'SLUICE_REF'], dedup: 'ref' }),
  );
  await work([
    'push',
    '--quiet',
    remote,
    'refs/meta/effects/*',
    ...branches.map((name) => `main:refs/heads/${name}`),
  ]);

  const effects = await until('all effects are done', async () => {
    const rows = await effectsOf(db, 'hostile');
    return rows.length === 2 * branches.length && rows.every(({ state }) => state === 'done') && rows;
  });
  expect(effects.filter(({ outcome }) => outcome !== 'pass')).toEqual([]);
  const said = await Promise.all(
    effects.map(async ({ effectId, name }) => {
      const chunks = await db
        .selectFrom('effect_log')
        .select('bytes')
        .where('effect_id', '=', effectId)
        .orderBy('seq')
        .execute();
      return `${name} ${Buffer.concat(chunks.map(({ bytes }) => bytes)).toString()}`;
    }),
  );
  const expected = branches.flatMap((name) => [`shell [refs/heads/${name}]\n`, `words refs/heads/${name}\n`]);
  expect(said.toSorted()).toEqual(expected.toSorted());
  expect(existsSync(bait)).toBe(false);
  // Their results are refs of the commit alone: nothing of a name is in them.
  const results = await gitIn(system.folder)(['ls-remote', remote, 'refs/meta/results/*']);
  expect(results.split('\n').map((line) => line.split('\t')[1])).toEqual([
    `refs/meta/results/shell/${commit}`,
    `refs/meta/results/words/${commit}`,
  ]);
});
