import { once } from 'node:events';
import { randomBytes } from 'node:crypto';
import { globSync } from 'node:fs';
import { connect } from 'node:net';
import { commitFiles, defineEffect, gitIn, makeRepo } from '@sluice/testkit';
import { expect, test, vi } from 'vitest';
import { encodePkt, FLUSH } from '../src/wire/pkt-line.ts';
import { EMPTY_PACK, preamble, send, sendPush } from './raw-push.ts';
import { usePusher } from './use-pusher.ts';

const pusher = usePusher();

test('twenty pushes to one repository at once: each is whole, and the log has no gap', async () => {
  const { url } = await pusher.start({ SLUICE_GIT_PROCESSES: '4' });
  const remote = `${url}/busy.git`;
  const work = await makeRepo(`${pusher.folder}/work`);
  await commitFiles(work, { 'a.txt': 'one' });
  await defineEffect(work, 'ci', 'on: [refs/heads/*]\nrun: make\n');
  await work(['push', '--quiet', remote, 'main', 'refs/meta/effects/ci']);
  const pushes = Array.from({ length: 20 }, (_, n) =>
    work.attempt(['push', remote, `main:b${n}`, `main:refs/tags/t${n}`]),
  );
  for (const { code, stderr } of await Promise.all(pushes))
    expect([code, stderr]).toEqual([0, expect.any(String)]);

  const { db } = pusher.database;
  const records = await db
    .selectFrom('op_record')
    .select(['seq', 'push_id', 'parent'])
    .orderBy('seq')
    .execute();
  expect(records.map(({ seq }) => seq)).toEqual(Array.from({ length: 21 }, (_, n) => BigInt(n + 1)));
  expect(records.slice(1).map(({ parent }) => parent)).toEqual(
    records.slice(0, -1).map(({ push_id }) => push_id),
  );
  const effects = await db.selectFrom('effect_queue').select('push_id').execute();
  expect(new Set(effects.map(({ push_id }) => push_id)).size).toBe(21);
  const listed = await gitIn(pusher.folder)(['ls-remote', remote]);
  const rows = await db.selectFrom('ref').select(['name', 'oid']).orderBy('name').execute();
  expect(listed.split('\n').slice(1)).toEqual(rows.map(({ name, oid }) => `${oid}\t${name}`));
});

test('of pushes with overlapping refs in opposite order, one wins whole and the other is stale', async () => {
  const { url } = await pusher.start();
  const remote = `${url}/contest.git`;
  const work = await makeRepo(`${pusher.folder}/work`);
  const values = [];
  for (const text of ['zero', 'one', 'two']) values.push(await commitFiles(work, { 'a.txt': text }));
  await work([
    'push',
    '--quiet',
    remote,
    'main:keep',
    `${values[0]}:refs/heads/a`,
    `${values[0]}:refs/heads/b`,
  ]);
  let old = values[0]!;
  for (let round = 0; round < 10; round += 1) {
    const [x, y] = values.filter((value) => value !== old) as [string, string];
    const edit = (names: string[], to: string): Buffer =>
      Buffer.concat([preamble(names.map((name) => ({ old, new: to, name }))), EMPTY_PACK]);
    const answers = await Promise.all([
      sendPush(remote, edit(['refs/heads/a', 'refs/heads/b'], x)),
      sendPush(remote, edit(['refs/heads/b', 'refs/heads/a'], y)),
    ]);
    const won = answers.map(
      ({ text }) => text.includes('ok refs/heads/a') && text.includes('ok refs/heads/b'),
    );
    const lost = answers.map(({ text }) => text.includes('stale'));
    expect(won.toSorted((a, b) => Number(a) - Number(b))).toEqual([false, true]);
    expect(lost).toEqual(won.map((one) => !one));
    const rows = await pusher.database.db
      .selectFrom('ref')
      .select('oid')
      .where('name', 'in', ['refs/heads/a', 'refs/heads/b'])
      .execute();
    expect(new Set(rows.map(({ oid }) => oid)).size).toBe(1);
    old = rows[0]!.oid;
  }
});

test('two pushers over one data folder: one value wins, and both show it', async () => {
  const pushers = [await pusher.start(), await pusher.start()];
  const work = await makeRepo(`${pusher.folder}/work`);
  await commitFiles(work, { 'a.txt': 'one' });
  await work(['push', '--quiet', `${pushers[0]!.url}/twin.git`, 'main']);
  const base = await work(['rev-parse', 'main']);
  const rivals: string[] = [];
  for (const text of ['left', 'right']) {
    await work(['reset', '--quiet', '--hard', base]);
    rivals.push(await commitFiles(work, { 'a.txt': text }));
  }
  const answers = await Promise.all(
    pushers.map(({ url }, index) =>
      work.attempt(['push', `${url}/twin.git`, `${rivals[index]}:refs/heads/main`]),
    ),
  );
  expect(answers.filter(({ code }) => code === 0)).toHaveLength(1);
  const winner = rivals[answers.findIndex(({ code }) => code === 0)];
  for (const { url } of pushers) {
    const listed = await gitIn(pusher.folder)(['ls-remote', `${url}/twin.git`, 'refs/heads/main']);
    expect(listed).toBe(`${winner}\trefs/heads/main`);
  }
});

test('who leaves while it waits in line takes no place, and the next ones are served', async () => {
  const { url } = await pusher.start({ SLUICE_GIT_PROCESSES: '3' });
  const remote = `${url}/line.git`;
  const work = await makeRepo(`${pusher.folder}/work`);
  // More than fits into the buffers of a connection, so that who does not read it holds the one slot for reading.
  const commit = await commitFiles(work, { 'big.bin': randomBytes(32 * 1024 * 1024).toString('base64') });
  await work(['push', '--quiet', remote, 'main']);
  const wants = `${encodePkt(`want ${commit}\n`).toString()}0000${encodePkt('done\n').toString()}`;
  const ask = (method: string, path: string, body: string) => {
    const socket = connect(Number(new URL(url).port), '127.0.0.1');
    socket.write(
      `${method} ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-git-upload-pack-request\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    return socket;
  };
  const holder = ask('POST', '/line.git/git-upload-pack', wants);
  await once(holder, 'readable');
  const leavers = [
    ask('GET', '/line.git/info/refs?service=git-upload-pack', ''),
    ask('POST', '/line.git/git-upload-pack', wants),
  ];
  await Promise.all(leavers.map((socket) => once(socket, 'connect')));
  // The server has read what was sent before this, and then it hears of the ends before what is sent after them.
  await send(`${url}/_health`);
  for (const socket of leavers) socket.destroy();
  await send(`${url}/_health`);
  // Pushes have slots of their own.
  expect(
    (
      await sendPush(
        remote,
        Buffer.concat([preamble([{ new: commit, name: 'refs/heads/other' }]), EMPTY_PACK]),
      )
    ).text,
  ).toContain('ok refs/heads/other');
  holder.destroy();
  await gitIn(pusher.folder)(['clone', '--quiet', remote, 'clone']);
  expect(pusher.events.map(({ event }) => event)).not.toContain('request_failed');
});

test('uploads that announce themselves and fall silent keep nobody from pushing', async () => {
  const { url } = await pusher.start({ SLUICE_GIT_PROCESSES: '3' });
  const work = await makeRepo(`${pusher.folder}/work`);
  const commit = await commitFiles(work, { 'a.txt': 'one' });
  const body = Buffer.concat([
    preamble([{ new: commit, name: 'refs/heads/x' }]),
    Buffer.from('5041434b0000000200000001', 'hex'),
  ]);
  const silent = Array.from({ length: 20 }, (_, n) => {
    const socket = connect(Number(new URL(url).port), '127.0.0.1');
    socket.on('error', () => {});
    socket.write(
      `POST /silent-${n % 5}.git/git-receive-pack HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-git-receive-pack-request\r\nContent-Length: 1000000\r\n\r\n`,
    );
    socket.write(body);
    return socket;
  });
  await Promise.all(silent.map((socket) => once(socket, 'connect')));
  const quarantine = `${pusher.folder}/data/repos/*/*/objects/tmp_objdir-incoming-*`;
  await vi.waitFor(() => expect(globSync(quarantine)).toHaveLength(1), { timeout: 20_000, interval: 20 });
  await work(['push', '--quiet', `${url}/heard.git`, 'main']);
  for (const socket of silent) socket.destroy();
});

test('a fetch that falls silent in a long request keeps nobody from fetching, and is let go when another long one waits', async () => {
  const { url } = await pusher.start({ SLUICE_GIT_PROCESSES: '3' });
  const remote = `${url}/long.git`;
  const work = await makeRepo(`${pusher.folder}/work`);
  const commit = await commitFiles(work, { 'a.txt': 'one' });
  await work(['push', '--quiet', remote, 'main']);
  const haves = Array.from({ length: 3000 }, () => encodePkt(`have ${randomBytes(20).toString('hex')}\n`));
  const body = Buffer.concat([encodePkt(`want ${commit}\n`), FLUSH, ...haves, encodePkt('done\n')]);
  const ask = (bytes: Buffer): { answer: () => string } & Disposable => {
    const socket = connect(Number(new URL(url).port), '127.0.0.1');
    let answer = '';
    socket.setEncoding('latin1').on('data', (text: string) => (answer += text));
    socket.on('error', () => {});
    socket.write(
      `POST /long.git/git-upload-pack HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-git-upload-pack-request\r\nContent-Length: ${body.length}\r\n\r\n`,
    );
    socket.write(bytes);
    return { answer: () => answer, [Symbol.dispose]: () => socket.destroy() };
  };
  // More than is in memory of a request that has no place among the long ones.
  using silent = ask(body.subarray(0, 100_000));
  await gitIn(pusher.folder)(['clone', '--quiet', remote, 'clone']);
  expect(silent.answer()).toBe('');
  using patient = ask(body);
  const bound = { timeout: 20_000, interval: 20 };
  await vi.waitFor(() => expect(patient.answer()).toContain('PACK'), bound);
  await vi.waitFor(() => expect(silent.answer()).toContain('408 '), bound);
  expect(silent.answer()).toContain('next to nothing while others waited');
});

test('who fetches and takes nothing is let go when somebody else wants to fetch', async () => {
  const { url } = await pusher.start({ SLUICE_GIT_PROCESSES: '3' });
  const remote = `${url}/taken.git`;
  const work = await makeRepo(`${pusher.folder}/work`);
  // More than fits into the buffers of a connection.
  const commit = await commitFiles(work, { 'big.bin': randomBytes(12 * 1024 * 1024).toString('base64') });
  await work(['push', '--quiet', remote, 'main']);
  const body = Buffer.concat([encodePkt(`want ${commit}\n`), FLUSH, encodePkt('done\n')]);
  const reader = connect(Number(new URL(url).port), '127.0.0.1');
  reader.on('error', () => {});
  reader.write(
    `POST /taken.git/git-upload-pack HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-git-upload-pack-request\r\nContent-Length: ${body.length}\r\n\r\n`,
  );
  reader.write(body);
  await once(reader, 'readable');
  await gitIn(pusher.folder)(['clone', '--quiet', remote, 'clone']);
  expect((await send(`${url}/_metrics`)).text).toContain('sluice_refusals_total{reason="too_slow"} 1\n');
  expect(pusher.events.map(({ event }) => event)).not.toContain('upload_pack_failed');
  reader.destroy();
});
