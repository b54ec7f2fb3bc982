import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { closeCommitGate } from './commit-gate.ts';
import { REFSPECS, useCrashScene } from './crash-scene.ts';

/** Folders that were synced, with what was in them then. */
const synced: { folder: string; names: string[] }[] = [];

vi.mock(import('../src/git/repo-folder.ts'), async (original) => {
  const real = await original();
  return {
    ...real,
    async syncFolder(folder) {
      const names = readdirSync(folder);
      await real.syncFolder(folder);
      synced.push({ folder, names });
    },
  };
});

const scene = useCrashScene();

/** A `git` that says in a file what each of its processes did, ahead of the real one on the PATH. */
function traceGit(): { events: () => TraceEvent[] } {
  const bin = join(scene.folder, 'bin');
  const trace = join(scene.folder, 'trace');
  mkdirSync(bin);
  const git = spawnSync('sh', ['-c', 'command -v git'], { encoding: 'utf8' }).stdout.trim();
  writeFileSync(join(bin, 'git'), `#!/bin/sh\nGIT_TRACE2_EVENT=${trace} exec ${git} "$@"\n`, { mode: 0o755 });
  vi.stubEnv('PATH', `${bin}:${process.env['PATH']}`);
  const events = (): TraceEvent[] =>
    readFileSync(trace, 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as TraceEvent);
  return { events };
}

interface TraceEvent {
  event: string;
  /** The process. */
  sid: string;
  argv?: string[];
  category?: string;
  /** Until git 2.41 in a `data` event, as `fsync/hardware-flush` and a text. */
  key?: string;
  value?: string;
  /** From 2.42 on in a `counter` event. */
  name?: string;
  count?: number;
}

/** How many files the processes of one kind had written through to the disk. */
function flushesOf(command: string, events: readonly TraceEvent[]): number {
  const processes = new Set(
    events.filter(({ argv }) => argv?.includes(command) === true).map(({ sid }) => sid),
  );
  return events
    .filter(({ sid, category }) => processes.has(sid) && category === 'fsync')
    .filter(({ key, name }) => key === 'fsync/hardware-flush' || name === 'hardware-flush')
    .reduce((sum, { value, count }) => sum + Number(value ?? count), 0);
}

test('row 9: when a push stands in COMMIT, its objects and the names of their files are on disk', async () => {
  const trace = traceGit();
  const { work, repoId } = await scene.makeWork();
  await using gate = await closeCommitGate(scene.database.db);
  const { url } = await scene.start();
  const pushing = work.attempt(['push', `${url}/${repoId}.git`, ...REFSPECS]);
  await gate.reached();

  const packs = join(scene.repoFolderOf(repoId), 'objects/pack');
  const files = readdirSync(packs).filter((name) => !name.endsWith('.keep'));
  expect(files).toContainEqual(expect.stringMatching(/^pack-.*\.pack$/));
  expect(flushesOf('index-pack', trace.events())).toBeGreaterThanOrEqual(files.length);
  expect(synced).toContainEqual({ folder: packs, names: expect.arrayContaining(files) });

  await gate.open();
  expect((await pushing).code).toBe(0);
});
