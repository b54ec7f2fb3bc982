import { randomUUID } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { commitFileAt, makeRepo, useTempFolder } from '@sluice/testkit';
import { afterEach, expect, test, vi } from 'vitest';
import { GovernanceReader } from './governance.ts';
import type { GoverningRefs } from './read-governing-refs.ts';

const temporary = useTempFolder();
afterEach(() => vi.unstubAllEnvs());

const yaml = (name: string): string =>
  `role: admin\nkeys:\n  - ssh-ed25519 ${Buffer.from(`\0\0\0\x0bssh-ed25519\0\0\0 ${name.padEnd(32, '.')}`).toString('base64')}\n`;

/** A repository with members, its refs, and how many git processes were started from here on. */
async function scene(names: readonly string[]) {
  const work = await makeRepo(join(temporary.path, randomUUID()));
  const members: { name: string; oid: string }[] = [];
  for (const name of names) {
    const ref = `refs/meta/members/${name}`;
    members.push({ name: ref, oid: await commitFileAt(work, ref, 'member.yaml', yaml(name)) });
  }
  const bin = join(temporary.path, randomUUID());
  const list = join(bin, 'started');
  const path = process.env['PATH'] ?? '';
  mkdirSync(bin);
  writeFileSync(list, '');
  writeFileSync(join(bin, 'git'), `#!/bin/sh\necho >> '${list}'\nPATH='${path}' exec git "$@"\n`, {
    mode: 0o755,
  });
  vi.stubEnv('PATH', `${bin}:${path}`);
  const refs: GoverningRefs = { config: null, members, hadMembers: true };
  const git = { folder: join(work.folder, '.git'), home: temporary.path };
  return { refs, git, started: (): number => readFileSync(list, 'utf8').length };
}

test('many who ask for one state of the refs share one look at it, also where next to nothing is remembered', async () => {
  const { refs, git, started } = await scene(['ada', 'bob', 'eve']);
  const reader = new GovernanceReader({ knownBytesMax: 1 });
  const asked = await Promise.all(Array.from({ length: 20 }, () => reader.of(refs, git)));
  expect(asked.map(({ members }) => [...(members?.keys() ?? [])])).toEqual(
    asked.map(() => ['ada', 'bob', 'eve']),
  );
  const first = started();
  expect(first).toBeGreaterThan(0);
  expect(first).toBeLessThanOrEqual(4);
  await reader.of(refs, git);
  expect(started()).toBe(first);
  const later = await reader.of({ ...refs, members: refs.members.slice(1) }, git);
  expect([...(later.members?.keys() ?? [])]).toEqual(['bob', 'eve']);
  expect(started()).toBeGreaterThan(first);
});

test('a fault is looked at again: the object may be there by now', async () => {
  const { refs, git, started } = await scene(['ada']);
  const reader = new GovernanceReader();
  const missing = { ...refs, members: [{ name: 'refs/meta/members/zoe', oid: 'f'.repeat(40) }] };
  expect(await reader.of(missing, git)).toMatchObject({ problem: expect.stringContaining('zoe') });
  const first = started();
  expect(await reader.of(missing, git)).toMatchObject({ problem: expect.stringContaining('zoe') });
  expect(started()).toBeGreaterThan(first);
  const nowhere = { ...git, folder: join(temporary.path, 'nowhere') };
  await expect(reader.of(refs, nowhere)).rejects.toThrow('git could not');
  await expect(reader.of(refs, nowhere)).rejects.toThrow('git could not');
  expect(await reader.of(refs, git)).toMatchObject({ problem: null });
});
