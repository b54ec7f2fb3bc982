import { expect, test } from 'vitest';
import { GitSlots } from './git-slots.ts';

test('a repository takes at most half of the slots, and who waits gets the next free one', async () => {
  const slots = new GitSlots({ max: 4, waitMs: 10_000 });
  const busy = [await slots.take('busy'), await slots.take('busy')];
  const waiting = slots.take('busy');
  const others = [await slots.take('a'), await slots.take('b')];
  busy[0]!();
  const third = await waiting;
  for (const release of [busy[1]!, third, ...others]) release();
  const again = await Promise.all(['a', 'a', 'b', 'b'].map((repo) => slots.take(repo)));
  expect(again).toHaveLength(4);
});

test('an account takes at most half of the slots as well, in whatever repositories', async () => {
  const slots = new GitSlots({ max: 4, waitMs: 10_000 });
  const [first, second] = [await slots.take('a', 'alice'), await slots.take('b', 'alice')];
  let isServed = false;
  const third = slots.take('c', 'alice').then((release) => {
    isServed = true;
    return release;
  });
  const others = [await slots.take('c', 'bob'), await slots.take('c')];
  expect(isServed).toBe(false);
  for (const release of [...others, first]) release();
  for (const release of [second, await third]) release();
  expect(slots.hasRoom).toBe(true);
});

test('a slot is wanted by those in line whom it would let in', async () => {
  const slots = new GitSlots({ max: 4, waitMs: 10_000 });
  const taken = [await slots.take('a', 'alice'), await slots.take('b', 'alice')];
  expect(slots.isWanted('a', 'alice')).toBe(false);
  const third = slots.take('c', 'alice');
  expect(slots.isWanted('a', 'alice')).toBe(true);
  expect(slots.isWanted('d', 'bob')).toBe(false);
  const others = [await slots.take('d', 'bob'), await slots.take('d')];
  expect(slots.isWanted('d', 'bob')).toBe(false);
  const fourth = slots.take('e', 'carol');
  expect(slots.isWanted('d', 'bob')).toBe(true);
  for (const release of [...taken, ...others]) release();
  for (const release of await Promise.all([third, fourth])) release();
});

test('who waits too long, or in too long a line, or for a server that stops, is asked to come back', async () => {
  const slots = new GitSlots({ max: 1, waitMs: 1 });
  const release = await slots.take('a');
  await expect(slots.take('b')).rejects.toMatchObject({ status: 503, headers: { 'retry-after': '5' } });
  release();
  (await slots.take('b'))();
  const patient = new GitSlots({ max: 1, waitMs: 10_000 });
  await patient.take('a');
  const line = Array.from({ length: 32 }, () => patient.take('b'));
  await expect(patient.take('b')).rejects.toThrow('too many requests are waiting');
  patient.close();
  for (const waiting of await Promise.allSettled(line)) expect(waiting.status).toBe('rejected');
  await expect(patient.take('a')).rejects.toThrow('shutting down');
});
