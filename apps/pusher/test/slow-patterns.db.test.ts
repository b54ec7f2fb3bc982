import { commitFileAt, commitFiles, defineEffect, makeRepo } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { packOf } from './pack-of.ts';
import { preamble, reportOf, send, sendPush } from './raw-push.ts';
import { usePusher } from './use-pusher.ts';

const pusher = usePusher();

/** What matchers that go through all possibilities take longest for, as long as a policy, a name and a push may have it. */
const SLOW = [
  { part: '**a*a', unit: 'aa/', nameBytes: 1000, refs: 290 },
  { part: '*a', unit: 'a', nameBytes: 255, refs: 930 },
];

/** A turn takes 2 to 5 ms, all of them 400 to 1,500. */
const PAUSE_MS_MAX = 250;

/** The longest time for which nothing else had its turn, in the best of three rounds: what else the machine does counts less. */
async function longestPause(work: (round: number) => Promise<unknown>): Promise<number> {
  const pauses: number[] = [];
  for (let round = 0; round < 3; round += 1) {
    let longest = 0;
    let last = performance.now();
    const look = (): void => {
      longest = Math.max(longest, performance.now() - last);
      last = performance.now();
    };
    const timer = setInterval(look, 1);
    await work(round).finally(() => clearInterval(timer));
    look();
    pauses.push(longest);
  }
  return Math.min(...pauses);
}

test.each(SLOW)(
  'a policy of patterns such as $part and refs such as $unit keep nobody else from being answered',
  async ({ part, unit, nameBytes, refs }) => {
    const { url } = await pusher.start();
    const remote = `${url}/slow/policy-${part.length}.git`;
    const work = await makeRepo(`${pusher.folder}/work`);
    const commit = await commitFiles(work, { 'a.txt': 'one' });
    const patterns = Array.from(
      { length: 100 },
      (_, n) => `refs/heads/${part.repeat(Math.floor(270 / part.length))}*y${n}*z`,
    );
    const rules = Object.fromEntries(patterns.map((pattern) => [pattern, { force: false }]));
    await commitFileAt(work, 'refs/meta/config', 'policy.yaml', JSON.stringify({ rules }));
    await work(['push', '--quiet', remote, 'main', 'refs/meta/config']);
    const names = Array.from(
      { length: refs },
      (_, n) => `refs/heads/${unit.repeat(1000)}`.slice(0, nameBytes) + `${n}z`,
    );
    const body = preamble(names.map((name) => ({ new: commit, name })));
    expect(body.length).toBeLessThan(400_000);
    const pause = await longestPause(async () => {
      const pushing = sendPush(remote, Buffer.concat([body, Buffer.from('no pack')]));
      expect((await send(`${url}/_health`)).status).toBe(200);
      expect((await pushing).text).toContain('unpacker error');
    });
    expect(pause).toBeLessThan(PAUSE_MS_MAX);
  },
);

test('definitions of such patterns keep nobody else waiting either, while the repository is locked', async () => {
  const { url } = await pusher.start();
  const remote = `${url}/slow/effects.git`;
  const work = await makeRepo(`${pusher.folder}/work`);
  const commit = await commitFiles(work, { 'a.txt': 'one' });
  const refs = Array.from({ length: 64 }, (_, n) => `refs/heads/**/${'*a/'.repeat(75)}*y${n}*z`);
  await defineEffect(work, 'slow', JSON.stringify({ on: refs, run: 'make' }));
  const many = Array.from({ length: 400 }, (_, n) => `refs/meta/effects/slow:refs/meta/effects/slow-${n}`);
  await work(['push', '--quiet', remote, 'main', ...many]);
  const pack = await packOf(work, commit);
  const pause = await longestPause(async (round) => {
    const name = `refs/heads/${round}/${'a/'.repeat(490)}z`;
    const pushing = sendPush(remote, Buffer.concat([preamble([{ new: commit, name }]), pack]));
    expect((await send(`${url}/_health`)).status).toBe(200);
    expect(reportOf(await pushing)).toContain(`ok ${name}`);
  });
  expect(pause).toBeLessThan(PAUSE_MS_MAX);
});
