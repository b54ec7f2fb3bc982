import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { commitFiles, defineEffect } from '@sluice/testkit';
import { expect, test, vi } from 'vitest';
import { remoteLines, useAdopted } from './use-adopted.ts';

// Each push starts a program.
vi.setConfig({ testTimeout: 180_000 });
const adopted = useAdopted();

test('the refs that are there are imported, and a push is one commit of refs, reflog, op record and effects', async () => {
  const { repoId, bare, work, push, install, known, onDisk, writeHook } = await adopted.begin();
  await work(['tag', '-a', '-m', 'first', 'v1']);
  await work(['push', '--quiet', bare.folder, 'main', 'main:packed', 'v1']);
  await bare(['pack-refs', '--all']);
  await work(['push', '--quiet', bare.folder, 'main:loose']);
  const before = await onDisk();
  expect(Object.keys(before)).toEqual([
    'refs/heads/loose',
    'refs/heads/main',
    'refs/heads/packed',
    'refs/tags/v1',
  ]);

  const installed = await install();
  expect(installed).toMatchObject({ code: 0, stderr: '' });
  expect(installed.stdout).toMatch(/ is adopted\/r\d+: push [0-9a-f]{40} has its refs\n/);
  expect(await known()).toEqual(before);
  expect(await onDisk()).toEqual(before);

  writeHook(
    'post-receive',
    `cat >> ${adopted.folder}/posted; git for-each-ref refs/heads/main >> ${adopted.folder}/posted`,
  );
  const definition = await defineEffect(work, 'test', 'on: [refs/heads/main]\nrun: make\n');
  const next = await commitFiles(work, { 'a.txt': 'next' });
  const pushed = await push(['origin', 'main', 'main:other', 'refs/meta/effects/test'], { user: 'alice' });
  expect(pushed.code).toBe(0);
  const [first, ...lines] = remoteLines(pushed);
  expect(first).toMatch(/^push [0-9a-f]{40}$/);
  expect(lines[0]).toMatch(/^effect \d+ test for refs\/heads\/main: queued$/);
  expect(lines.slice(1)).toEqual(['no effect test for refs/heads/other: matches none of refs/heads/main']);

  const now = {
    ...before,
    'refs/heads/main': next,
    'refs/heads/other': next,
    'refs/meta/effects/test': definition,
  };
  expect(await known()).toEqual(now);
  expect(await onDisk()).toEqual(now);
  expect(readFileSync(join(adopted.folder, 'posted'), 'utf8')).toContain(`${next} commit\trefs/heads/main`);

  const { db } = adopted.database;
  const records = await db
    .selectFrom('op_record')
    .select(['seq', 'signer', 'push_id'])
    .where('repo_id', '=', repoId)
    .orderBy('seq')
    .execute();
  expect(records).toMatchObject([{ seq: 1n }, { seq: 2n, signer: 'user:alice', push_id: first?.slice(5) }]);
  const effects = await db.selectFrom('effect_queue').select('name').where('repo_id', '=', repoId).execute();
  expect(effects).toEqual([{ name: 'test' }]);
  expect(await adopted.cli(['op', 'verify', repoId])).toMatchObject({ code: 0, stderr: '' });
});

test('force, delete, push options, and what is refused is refused whole', async () => {
  const { repoId, bare, work, push, install, known, onDisk } = await adopted.begin();
  await defineEffect(work, 'test', 'on: [refs/heads/*]\nrun: make\n');
  await work(['push', '--quiet', bare.folder, 'main', 'main:old', 'refs/meta/effects/test']);
  await install();

  const forced = await commitFiles(work, { 'a.txt': 'amended' });
  await work(['commit', '--quiet', '--amend', '--message=amended']);
  const amended = await work(['rev-parse', 'HEAD']);
  expect(amended).not.toBe(forced);
  const skipped = await push(['--force', '--push-option=ci.skip', 'origin', 'main', ':old']);
  expect(skipped.code).toBe(0);
  expect(remoteLines(skipped)).toContainEqual(
    expect.stringContaining('skipped: the push asked for it: ci.skip'),
  );
  expect(await known()).toMatchObject({ 'refs/heads/main': amended });
  expect(Object.keys(await onDisk())).toEqual(['refs/heads/main', 'refs/meta/effects/test']);

  const before = await known();
  for (const [refspecs, reasons] of [
    [['main:refs/meta/results/test/x'], ['deny updating a hidden ref']],
    [['main:refs/heads/main/below'], ['conflicts with the existing ref refs/heads/main']],
    [
      ['main^{tree}:refs/heads/tree', 'main:refs/meta/effects/broken'],
      ['expected a commit on a branch, got a tree', 'expected a file effect.yaml in the commit'],
    ],
  ] as const) {
    const refused = await push(['origin', 'main:fine', ...refspecs]);
    expect(refused.code).toBe(1);
    for (const reason of [...reasons, 'not applied: another ref of this push was refused'])
      expect(refused.stderr).toContain(reason);
  }
  expect(await known()).toEqual(before);
  expect(await onDisk()).toEqual(before);
  expect((await adopted.cli(['op', 'verify', repoId])).code).toBe(0);
});

test('a repository of SHA-256 is adopted as such', async () => {
  const { work, push, install, known, onDisk } = await adopted.begin({ objectFormat: 'sha256' });
  expect((await install()).code).toBe(0);
  expect((await push(['origin', 'main'])).code).toBe(0);
  const main = await work(['rev-parse', 'HEAD']);
  expect(main).toHaveLength(64);
  expect(await known()).toEqual({ 'refs/heads/main': main });
  expect(await onDisk()).toEqual({ 'refs/heads/main': main });
});

test('the rules that git leaves to proc-receive hold: deny settings, the current branch, and the update hook', async () => {
  const { bare, work, push, install, known, writeHook } = await adopted.begin();
  await work(['push', '--quiet', bare.folder, 'main', 'main:old']);
  await install();
  const before = await known();

  await bare(['config', 'receive.denyDeletes', 'true']);
  await bare(['config', 'receive.denyNonFastForwards', 'true']);
  await work(['commit', '--quiet', '--amend', '--message=amended']);
  const denied = await push(['--force', 'origin', 'main', ':old']);
  expect(denied.stderr).toContain('main -> main (non-fast-forward)');
  expect(denied.stderr).toContain('old (deletion prohibited)');
  await bare(['config', 'receive.denyDeletes', 'false']);
  await bare(['config', '--unset', 'receive.denyNonFastForwards']);
  expect((await push(['origin', ':main'])).stderr).toContain('deletion of the current branch prohibited');
  writeHook(
    'update',
    `echo "$1 by $SLUICE_PUSHER with \${DATABASE_URL-nothing}"; [ "$1" != refs/heads/closed ] && git cat-file -e HEAD`,
  );
  const refused = await push(['origin', 'main:open', 'main:closed'], { user: 'bob' });
  expect(refused.stderr).toContain('closed (hook declined)');
  expect(remoteLines(refused)).toContain('refs/heads/closed by bob with nothing');
  expect(await known()).toEqual(before);

  expect((await push(['--force', 'origin', 'main', ':old', 'main:open'])).code).toBe(0);
  expect(Object.keys(await known())).toEqual(['refs/heads/main', 'refs/heads/open']);
});

test('a pre-receive hook that was there before goes on judging pushes', async () => {
  const { bare, push, install, known, writeHook } = await adopted.begin();
  writeHook('pre-receive', 'echo "judged $(cut -d" " -f3)"; [ ! -e closed ]');
  expect((await install()).code).toBe(0);
  const accepted = await push(['origin', 'main']);
  expect(accepted.code).toBe(0);
  expect(remoteLines(accepted)[0]).toBe('judged refs/heads/main');
  mkdirSync(join(bare.folder, 'closed'));
  expect((await push(['origin', 'main:other'])).stderr).toContain('pre-receive hook declined');
  expect(Object.keys(await known())).toEqual(['refs/heads/main']);
  expect(readdirSync(join(bare.folder, 'sluice/pushes'))).toEqual([]);
});
