import { once } from 'node:events';
import { globSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { createToken, revokeToken, type CreatedToken, type Scope } from '@sluice/access';
import { table } from '@sluice/db';
import { commitFiles, makeRepo, type Git } from '@sluice/testkit';
import { sql } from 'kysely';
import { beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { preamble, reportOf, send, sendPush, type RawAnswer } from './raw-push.ts';
import { usePusher } from './use-pusher.ts';

const pusher = usePusher();
const OPERATOR = 'the-operator';

let url: string;
let work: Git;

beforeEach(async () => {
  await pusher.database.db.deleteFrom('repo').execute();
  work = await makeRepo(`${pusher.folder}/work`);
  await commitFiles(work, { 'a.txt': pusher.folder });
});

async function start(env: Record<string, string>): Promise<void> {
  ({ url } = await pusher.start({ SLUICE_ACCOUNTS: 'required', SLUICE_TOKEN: OPERATOR, ...env }));
}

async function makeToken(name: string, ...scopes: Scope[]): Promise<CreatedToken> {
  return await createToken(pusher.database.db, { name, repoPattern: 'a/*', scopes, expiresInDays: 1 });
}

function remote(repoId: string, token: string): string {
  return `${url.replace('//', `//x:${token}@`)}/${repoId}.git`;
}

function basic(token: string): Record<string, string> {
  return { authorization: `Basic ${Buffer.from(`x:${token}`).toString('base64')}` };
}

async function look(headers: Record<string, string> = {}, repoId = 'a/api'): Promise<RawAnswer> {
  return await send(`${url}/${repoId}.git/info/refs?service=git-upload-pack`, { headers });
}

async function refusals(): Promise<string[]> {
  const { text } = await send(`${url}/_metrics`, { headers: basic(OPERATOR) });
  return [...text.matchAll(/^sluice_refusals_total\{reason="([^"]+)"\} \d+$/gm)].map(([, reason]) => reason!);
}

/** Pushes that git unpacks, as far as they have come. */
async function beginPushes(count: number, repoId: string, token: string): Promise<Socket[]> {
  const opening = Buffer.concat([
    preamble([{ new: 'a'.repeat(40), name: 'refs/heads/main' }]),
    Buffer.from('5041434b0000000200000001', 'hex'),
  ]);
  const head = [
    `POST /${repoId}.git/git-receive-pack HTTP/1.1`,
    'host: 127.0.0.1',
    `authorization: ${basic(token)['authorization']}`,
    'content-type: application/x-git-receive-pack-request',
    'content-length: 1000000',
    '\r\n',
  ];
  const sockets = Array.from({ length: count }, () => {
    const socket = connect(Number(new URL(url).port), '127.0.0.1');
    socket.on('error', () => {});
    socket.write(Buffer.concat([Buffer.from(head.join('\r\n')), opening]));
    return socket;
  });
  const quarantine = `${pusher.folder}/data/repos/*/*/objects/tmp_objdir-incoming-*`;
  const look = (): void => expect(globSync(quarantine)).toHaveLength(count);
  await vi.waitFor(look, { timeout: 20_000, interval: 20 });
  return sockets;
}

test('an address that asks too often is told when to come back, before anybody asks who it is', async () => {
  await start({ SLUICE_ADDRESS_PER_MINUTE: '3', SLUICE_PROXY_HOPS: '1' });
  const from = (address: string) => ({ 'x-forwarded-for': `1.2.3.4, ${address}` });
  for (let n = 0; n < 3; n += 1) expect((await look(from('192.0.2.1'))).status).toBe(401);
  const refused = await look({ ...from('192.0.2.1'), ...basic(OPERATOR) });
  expect(refused).toMatchObject({ status: 429, headers: { 'retry-after': expect.stringMatching(/^\d+$/) } });
  expect(Number(refused.headers['retry-after'])).toBeLessThanOrEqual(20);
  expect(refused.text).toMatch(
    /^expected at most 3 requests a minute from one address \(SLUICE_ADDRESS_PER_MINUTE\), got more; try again in \d+ s\n$/,
  );
  expect((await look(from('192.0.2.2'))).status).toBe(401);
  // Pushes are counted apart, and health is not counted at all.
  expect((await sendPush(`${url}/a/api.git`, Buffer.alloc(0), from('192.0.2.1'))).status).toBe(401);
  for (let n = 0; n < 5; n += 1) expect((await send(`${url}/_health`)).status).toBe(200);
  expect(await refusals()).toEqual(expect.arrayContaining(['credentials', 'address_rate']));
});

test('stock git shows why its address is refused', async () => {
  await start({ SLUICE_ADDRESS_PER_MINUTE: '1' });
  await look();
  const { code, stderr } = await work.attempt(['ls-remote', remote('a/api', OPERATOR)]);
  expect(code).not.toBe(0);
  expect(stderr).toContain('remote: expected at most 1 requests a minute from one address');
  expect(stderr).toContain('429');
});

test('who runs the server or its effects is not counted', async () => {
  await start({
    SLUICE_ADDRESS_PER_MINUTE: '2',
    SLUICE_ADDRESS_AT_ONCE: '2',
    SLUICE_ACCOUNT_PER_MINUTE: '2',
  });
  await work(['push', '--quiet', remote('a/api', OPERATOR), 'main']);
  const { token } = await createToken(pusher.database.db, {
    name: 'dispatcher',
    repoPattern: '*',
    scopes: ['read', 'worker'],
    expiresInDays: null,
  });
  for (let n = 0; n < 5; n += 1) {
    expect((await look(basic(OPERATOR))).status).toBe(200);
    expect((await look(basic(token))).status).toBe(200);
  }
});

test('an account that asks too often hears it for each ref of its push, and others go on', async () => {
  await start({ SLUICE_ACCOUNT_PER_MINUTE: '2' });
  const [alice, again, bob] = [
    await makeToken('alice', 'write'),
    await makeToken('alice', 'admin'),
    await makeToken('bob', 'write'),
  ];
  await work(['push', '--quiet', remote('a/api', alice.token), 'main']);
  const opening = preamble([{ new: 'a'.repeat(40), name: 'refs/heads/main' }]);
  const answer = await sendPush(`${url}/a/api.git`, opening, basic(again.token));
  expect(answer.status).toBe(200);
  expect(reportOf(answer)).toMatch(
    /ng refs\/heads\/main expected at most 2 requests a minute from one account \(SLUICE_ACCOUNT_PER_MINUTE\), got more; try again in \d+ s\n/,
  );
  const { stderr } = await work.attempt(['push', remote('a/api', alice.token), 'main:other']);
  expect(stderr).toContain('remote: expected at most 2 requests a minute from one account');
  await work(['push', '--quiet', remote('a/api', bob.token), 'main:other']);
  await work(['ls-remote', '--quiet', remote('a/api', alice.token)]);
  expect(await refusals()).toContain('account_rate');
});

test('a token that opens nothing uses up nothing of its account or of a repository', async () => {
  await start({ SLUICE_ACCOUNT_PER_MINUTE: '1', SLUICE_REPO_PER_MINUTE: '1' });
  await work(['push', '--quiet', remote('a/api', OPERATOR), 'main']);
  const [alice, lost] = [await makeToken('alice', 'read'), await makeToken('alice', 'read')];
  await revokeToken(pusher.database.db, lost.tokenId);
  for (let n = 0; n < 3; n += 1) {
    expect((await look(basic(lost.token))).status).toBe(401);
    expect((await look(basic(alice.token), 'b/api')).status).toBe(403);
  }
  expect((await look(basic(alice.token))).status).toBe(200);
  expect((await look(basic(alice.token))).status).toBe(429);
});

test('a repository that is asked for too often is refused to everybody who is counted', async () => {
  await start({ SLUICE_REPO_PER_MINUTE: '1' });
  await work(['push', '--quiet', remote('a/api', OPERATOR), 'main']);
  await work(['push', '--quiet', remote('a/web', OPERATOR), 'main']);
  const [alice, bob] = [await makeToken('alice', 'read'), await makeToken('bob', 'read')];
  expect((await look(basic(alice.token))).status).toBe(200);
  expect((await look(basic(bob.token))).text).toContain(
    'requests a minute to one repository (SLUICE_REPO_PER_MINUTE)',
  );
  expect((await look(basic(bob.token), 'a/web')).status).toBe(200);
  expect((await look(basic(OPERATOR))).status).toBe(200);
});

test.each([
  ['address', { SLUICE_ADDRESS_AT_ONCE: '2' }, 429],
  ['account', { SLUICE_ACCOUNT_AT_ONCE: '2' }, 200],
  ['repository', { SLUICE_REPO_AT_ONCE: '2' }, 200],
])('one %s has a limited number of pushes under way', async (name, env, status) => {
  await start(env);
  const { token } = await makeToken('alice', 'write');
  const held = await beginPushes(2, 'a/api', token);
  const opening = preamble([{ new: 'a'.repeat(40), name: 'refs/heads/main' }]);
  const push = () => sendPush(`${url}/a/api.git`, opening, basic(token));
  const reason = new RegExp(
    `expected at most 2 requests at once (?:from|to) one ${name} \\(\\w+_AT_ONCE\\), got more`,
  );
  const refused = await push();
  expect(refused.text).toMatch(reason);
  expect(refused.status).toBe(status);
  if (status === 429) expect(refused.headers).toMatchObject({ 'retry-after': '5' });
  // Fetches are counted apart.
  expect((await look(basic(token))).status).toBe(404);
  for (const socket of held) socket.destroy();
  const isLetIn = async (): Promise<void> => expect((await push()).text).not.toMatch(reason);
  await vi.waitFor(isLetIn, { timeout: 20_000, interval: 20 });
});

/** Asks for all refs, once or more on one connection, and reads the beginning of the first answer. */
async function beginLooks(repoId: string, token: string, looks = 1): Promise<Socket> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1');
  socket.on('error', () => {});
  const path = `/${repoId}.git/info/refs?service=git-upload-pack`;
  const head = `GET ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: ${basic(token)['authorization']}\r\n\r\n`;
  socket.write(head.repeat(looks));
  await once(socket, 'readable');
  return socket;
}

/** Makes a repository with more refs than the buffers of a connection take: 9 MB. */
async function makeManyRefs(repoId: string): Promise<void> {
  await work(['push', '--quiet', remote(repoId, OPERATOR), 'main']);
  const commit = await work(['rev-parse', 'main']);
  await sql`insert into ${table('ref')}
    select ${repoId}, 'refs/heads/' || lpad(i::text, 900, '0'), ${commit} from generate_series(1, 10000) as i`.execute(
    pusher.database.db,
  );
}

const BOUND = { timeout: 20_000, interval: 50 };

test('a list of refs is under way until it is taken or its connection ends', async () => {
  await start({ SLUICE_ACCOUNT_AT_ONCE: '2' });
  await makeManyRefs('a/api');
  const { token } = await makeToken('alice', 'read');
  const status = async (): Promise<number> => (await look(basic(token), 'a/none')).status;
  const readers = [await beginLooks('a/api', token), await beginLooks('a/api', token)];
  expect(await status()).toBe(429);
  for (const socket of readers) socket.destroy();
  await vi.waitFor(async () => expect(await status()).toBe(404), BOUND);
  // The second of two answers on one connection has not begun when that ends.
  const both = await beginLooks('a/api', token, 2);
  await vi.waitFor(async () => expect(await status()).toBe(429), BOUND);
  both.destroy();
  await vi.waitFor(async () => expect(await status()).toBe(404), BOUND);
});

test('who takes a list of refs a few bytes at a time is let go', async () => {
  await start({ SLUICE_ACCOUNT_AT_ONCE: '1', SLUICE_UPLOAD_MS: '1000' });
  await makeManyRefs('a/api');
  const { token } = await makeToken('alice', 'read');
  const reader = await beginLooks('a/api', token);
  const trickle = setInterval(() => reader.read(1), 20);
  onTestFinished(() => {
    clearInterval(trickle);
    reader.destroy();
  });
  await vi.waitFor(async () => expect((await look(basic(token), 'a/none')).status).toBe(404), BOUND);
});

test('a proxy that nobody told of is noticed once', async () => {
  await start({});
  for (let n = 0; n < 3; n += 1) await look({ 'x-forwarded-for': '192.0.2.1' });
  const noticed = pusher.events.filter(({ event }) => event === 'proxy_not_expected');
  expect(noticed).toEqual([{ event: 'proxy_not_expected', setting: 'SLUICE_PROXY_HOPS' }]);
});
