import { commitFileAt, commitFiles, makeKey, makeRepo, signingWith } from '@sluice/testkit';
import { expect, test, vi } from 'vitest';
import { closeCommitGate } from './commit-gate.ts';
import { EMPTY_PACK, preamble, sendPush } from './raw-push.ts';
import { usePusher } from './use-pusher.ts';

const pusher = usePusher();

/** As many as may stand in line for the one slot for pushes that there is with three git processes. */
const LINE = 32;

test('a push that meets a busy server hears so for each ref, signed or not, and not by a number alone', async () => {
  const { url } = await pusher.start({ SLUICE_GIT_PROCESSES: '3' });
  const remote = `${url}/busy/members.git`;
  const work = await makeRepo(`${pusher.folder}/work`);
  const commit = await commitFiles(work, { 'a.txt': 'one' });
  const ada = makeKey(pusher.folder, 'ada');
  await commitFileAt(
    work,
    'refs/meta/members/ada',
    'member.yaml',
    `role: admin\nkeys:\n  - ${ada.publicKey}\n`,
  );
  await work(['push', '--quiet', remote, 'main', 'refs/meta/members/ada']);

  await using gate = await closeCommitGate(pusher.database.db);
  const push = (name: string): ReturnType<typeof sendPush> =>
    sendPush(remote, Buffer.concat([preamble([{ new: commit, name }]), EMPTY_PACK]));
  const held = push('refs/heads/held');
  await gate.reached();
  const waiting = Array.from({ length: LINE }, (_, n) => push(`refs/meta/waits-${n}`));
  const refused = async (...config: string[]): Promise<string> => {
    const { stderr } = await work.attempt([...config, remote, 'main:refs/heads/x', 'main:refs/heads/y']);
    return stderr;
  };
  const reason = 'too many requests are waiting. Try again in a moment';
  await vi.waitFor(async () => expect(await refused('push')).toContain(reason), {
    timeout: 20_000,
    interval: 50,
  });
  const signed = await refused(...signingWith(ada), 'push', '--signed');
  for (const ref of ['x', 'y']) expect(signed).toContain(`! [remote rejected] main -> ${ref} (${reason})`);
  await gate.open();
  expect((await held).text).toContain('ok refs/heads/held');
  // Who waits for a slot is judged when it has one.
  for (const { text } of await Promise.all(waiting)) expect(text).toContain('expected a signed push');
});
