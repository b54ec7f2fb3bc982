import { readFileSync, statSync } from 'node:fs';
import { connect, createServer, type AddressInfo, type Server } from 'node:net';
import { join } from 'node:path';
import { table } from '@sluice/db';
import { decodeWorkOrder } from '@sluice/effect-spec';
import { claimEffects } from '@sluice/queue-core/repo';
import { repoFolder } from '@sluice/ref-store';
import { commitFiles, defineEffect, gitIn, makeRepo } from '@sluice/testkit';
import { sql } from 'kysely';
import { afterEach, expect, test, vi } from 'vitest';
import { send } from './raw-push.ts';
import { usePusher } from './use-pusher.ts';

const pusher = usePusher();
const BOUND = { timeout: 20_000, interval: 20 };
const RESULTS = 100_000;
const REFS = 10_000;
let proxy: Server | undefined;
/** What the database has sent to the pusher. */
let bytes = 0;

afterEach(() => void proxy?.close());

/** A pusher whose database is heard: what it answers tells how much was looked at, however busy the machine is. */
async function startHeard(): Promise<string> {
  const target = new URL(pusher.database.url);
  proxy = createServer((client) => {
    const server = connect(Number(target.port), target.hostname);
    server.on('data', (chunk: Buffer) => (bytes += chunk.length));
    for (const [from, to] of [
      [client, server],
      [server, client],
    ] as const) {
      from.on('error', () => to.destroy());
      from.pipe(to);
    }
  });
  await new Promise<void>((resolve) => proxy!.listen(0, '127.0.0.1', resolve));
  const through = new URL(pusher.database.url);
  through.hostname = '127.0.0.1';
  through.port = String((proxy.address() as AddressInfo).port);
  return (await pusher.start({ DATABASE_URL: through.href, SLUICE_MAINTENANCE_MS: '0' })).url;
}

async function bytesOf(run: () => Promise<unknown>): Promise<number> {
  const before = bytes;
  await run();
  return bytes - before;
}

async function addRefs(repoId: string, prefix: string, commit: string, refs: number): Promise<void> {
  await sql`insert into ${table('ref')}
    select ${repoId}, ${prefix} || lpad(i::text, 40, '0'), ${commit} from generate_series(1, ${refs}) as i`.execute(
    pusher.database.db,
  );
}

/** A result of an effect that is claimed for it, pushed as a dispatcher does. */
async function pushResult(url: string, repoId: string): Promise<void> {
  const [claim] = await claimEffects(pusher.database.db, { repoId, claimedBy: 'tester', limit: 1 });
  const decoded = decodeWorkOrder(claim!.payload);
  if ('problem' in decoded) throw new Error(decoded.problem);
  const work = gitIn(`${pusher.folder}/work`);
  const input = JSON.stringify({
    effectId: String(claim!.effectId),
    attempt: claim!.attempt,
    outcome: 'pass',
  });
  const blob = await work(['hash-object', '-w', '--stdin'], { input });
  const tree = await work(['mktree'], { input: `100644 blob ${blob}\tresult.json\n` });
  const result = await work(['commit-tree', tree, '-m', 'Result']);
  const remote = `${url}/_claim/${claim!.claimNumber}/${repoId}.git`;
  await work(['push', '--quiet', remote, `${result}:${decoded.order.resultRef}`]);
}

test('a hundred thousand results make neither a push nor one more result cost more', async () => {
  const url = await startHeard();
  const repoId = 'many/results';
  const remote = `${url}/${repoId}.git`;
  const work = await makeRepo(`${pusher.folder}/work`);
  const packedRefs = join(repoFolder(`${pusher.folder}/data`, repoId, 'sha1'), 'packed-refs');
  let pushes = 0;
  /** All that is done for one push: what git asks first, the push, and the refs on disk after it. */
  const pushNext = async (): Promise<void> => {
    await commitFiles(work, { 'a.txt': `version ${(pushes += 1)}` });
    await work(['push', '--quiet', remote, 'main']);
    const head = await work(['rev-parse', 'main']);
    await vi.waitFor(() => expect(readFileSync(packedRefs, 'utf8')).toContain(head), BOUND);
  };
  const advertised = async (): Promise<number> =>
    (await send(`${remote}/info/refs?service=git-receive-pack`)).text.length;
  await commitFiles(work, { 'a.txt': 'one' });
  await defineEffect(work, 'ci', 'on: [refs/heads/*]\nrun: make\n');
  await work(['push', '--quiet', remote, 'main', 'refs/meta/effects/ci']);
  // Connections are opened and statements prepared.
  for (let warmUp = 0; warmUp < 3; warmUp += 1) await pushNext();
  await pushResult(url, repoId);
  const before = {
    advertised: await advertised(),
    disk: statSync(packedRefs).size,
    push: await bytesOf(pushNext),
    result: await bytesOf(() => pushResult(url, repoId)),
  };
  await addRefs(repoId, 'refs/meta/results/ci/', await work(['rev-parse', 'main']), RESULTS);
  const push = await bytesOf(pushNext);
  const result = await bytesOf(() => pushResult(url, repoId));
  expect(await advertised()).toBe(before.advertised);
  // A version number may have one digit more.
  expect(statSync(packedRefs).size - before.disk).toBeLessThan(10);
  expect(push - before.push).toBeLessThan(2_000);
  expect(result - before.result).toBeLessThan(2_000);
  const listed = await gitIn(pusher.folder)(['ls-remote', remote, 'refs/meta/results/*']);
  expect(listed.split('\n').length).toBeGreaterThan(RESULTS);
});

test('ten thousand refs are shown again without being read again', async () => {
  const repoId = 'many/refs';
  const work = await makeRepo(`${pusher.folder}/work`);
  const commit = await commitFiles(work, { 'a.txt': 'one' });
  const first = await pusher.start();
  await work(['push', '--quiet', `${first.url}/${repoId}.git`, 'main']);
  await first.stop({ hurry: false });
  pusher.events.length = 0;
  await addRefs(repoId, 'refs/heads/many/', commit, REFS);
  const remote = `${await startHeard()}/${repoId}.git`;
  // At its start it compares all refs with the disk, once.
  const started = (): unknown => pusher.events.map(({ event }) => event);
  await vi.waitFor(() => expect(started()).toContain('objects_checked'), BOUND);
  const show = async () => (await send(`${remote}/info/refs?service=git-receive-pack`)).text;
  expect((await show()).split('\n').length).toBeGreaterThan(REFS);
  expect(await bytesOf(show)).toBeLessThan(2_000);
  const next = await commitFiles(work, { 'a.txt': 'two' });
  await work(['push', '--quiet', remote, 'main']);
  // What changed is read, and nothing else.
  const again = await bytesOf(async () => expect(await show()).toContain(`${next} refs/heads/main`));
  expect(again).toBeLessThan(2_000);
});
