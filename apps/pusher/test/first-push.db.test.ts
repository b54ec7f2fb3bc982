import { once } from 'node:events';
import { globSync, renameSync } from 'node:fs';
import { connect } from 'node:net';
import { lockRepo, repoFolder } from '@sluice/ref-store';
import { commitFiles, makeRepo, type Git } from '@sluice/testkit';
import { sql } from 'kysely';
import { beforeEach, expect, test, vi } from 'vitest';
import { packOf } from './pack-of.ts';
import { preamble, reportOf, sendPush } from './raw-push.ts';
import { usePusher } from './use-pusher.ts';

const pusher = usePusher();

let url: string;
let work: Git;
let commit: string;
let pack: Buffer;

beforeEach(async () => {
  await pusher.database.db.deleteFrom('repo').execute();
  ({ url } = await pusher.start());
  work = await makeRepo(`${pusher.folder}/work`);
  commit = await commitFiles(work, { 'a.txt': pusher.folder });
  pack = await packOf(work, commit);
});

const folders = (): string[] => globSync(`${pusher.folder}/data/repos/*/*`);
const noFolder = async (): Promise<void> =>
  await vi.waitFor(() => expect(folders()).toEqual([]), { timeout: 20_000, interval: 20 });

const stale = (): Buffer =>
  Buffer.concat([preamble([{ old: 'a'.repeat(40), new: commit, name: 'refs/heads/main' }]), pack]);
const fresh = (): Buffer => Buffer.concat([preamble([{ new: commit, name: 'refs/heads/main' }]), pack]);

test.each([
  ['by git', () => Buffer.concat([fresh().subarray(0, -30), Buffer.alloc(30)]), 'unpacker error'],
  ['by the transaction', stale, 'stale'],
] as const)(
  'a first push that is refused %s leaves no folder, and the next one works',
  async (_, body, why) => {
    expect(reportOf(await sendPush(`${url}/new.git`, body()))).toContain(why);
    await noFolder();
    await work(['push', '--quiet', `${url}/new.git`, 'main']);
    expect(await work(['ls-remote', `${url}/new.git`])).toContain(`${commit}\trefs/heads/main`);
    expect(folders()).toHaveLength(1);
  },
);

test('a first push whose client leaves half-way leaves no folder', async () => {
  const socket = await beginPush(fresh().subarray(0, -30));
  const quarantine = `${pusher.folder}/data/repos/*/*/objects/tmp_objdir-incoming-*`;
  await vi.waitFor(() => expect(globSync(quarantine)).toHaveLength(1), { timeout: 20_000, interval: 20 });
  socket.destroy();
  await noFolder();
});

test('a first push that is refused takes no folder away from one that is under way', async () => {
  const bytes = fresh();
  // So little of it that git has no quarantine for it yet.
  const socket = await beginPush(bytes.subarray(0, -pack.length), bytes.length);
  for (let n = 0; n < 3; n += 1)
    expect(reportOf(await sendPush(`${url}/new.git`, stale()))).toContain('stale');
  expect(folders()).toHaveLength(1);
  let answer = '';
  socket.on('data', (chunk: Buffer) => (answer += chunk.toString('latin1')));
  socket.write(pack);
  await vi.waitFor(() => expect(answer).toContain('ok refs/heads/main'), { timeout: 20_000, interval: 20 });
  socket.destroy();
  expect(await work(['ls-remote', `${url}/new.git`])).toContain(`${commit}\trefs/heads/main`);
});

test('a first push whose folder another server takes away before it commits is refused, and not lost', async () => {
  const { db } = pusher.database;
  const folder = repoFolder(`${pusher.folder}/data`, 'new', 'sha1');
  const other = await db.startTransaction().execute();
  await lockRepo(other, { repoId: 'new', create: { objectFormat: 'sha1' } });
  const push = sendPush(`${url}/new.git`, fresh());
  const look = async (): Promise<void> => {
    const { rows } = await sql`select from pg_locks join pg_stat_activity using (pid)
      where locktype = 'transactionid' and not granted and datname = current_database()`.execute(db);
    expect(rows).toHaveLength(1);
  };
  await vi.waitFor(look, { timeout: 20_000, interval: 20 });
  renameSync(folder, `${pusher.folder}/gone`);
  await other.rollback().execute();
  expect(reportOf(await push)).toContain(
    'ng refs/heads/main the folder that this push was in was taken away',
  );
  expect(await db.selectFrom('repo').select('repo_id').execute()).toEqual([]);
  await work(['push', '--quiet', `${url}/new.git`, 'main']);
});

/** Sends the beginning of a push; it has a folder when this resolves. */
async function beginPush(bytes: Buffer, length = bytes.length + 1): Promise<ReturnType<typeof connect>> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1');
  socket.on('error', () => {});
  await once(socket, 'connect');
  socket.write(
    `POST /new.git/git-receive-pack HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-git-receive-pack-request\r\nContent-Length: ${length}\r\n\r\n`,
  );
  socket.write(bytes);
  await vi.waitFor(() => expect(folders()).toHaveLength(1), { timeout: 20_000, interval: 20 });
  return socket;
}
