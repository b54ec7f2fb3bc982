import { globSync } from 'node:fs';
import { request } from 'node:http';
import { text } from 'node:stream/consumers';
import { createToken, revokeToken, type CreatedToken, type Scope } from '@sluice/access';
import { decodeWorkOrder } from '@sluice/effect-spec';
import { claimEffects } from '@sluice/queue-core/repo';
import { commitFiles, defineEffect, gitIn, makeRepo, type Git } from '@sluice/testkit';
import { sql } from 'kysely';
import { beforeEach, expect, test, vi } from 'vitest';
import { packOf } from './pack-of.ts';
import { preamble, reportOf, send, sendPush } from './raw-push.ts';
import { usePusher } from './use-pusher.ts';

const pusher = usePusher();

let url: string;
let work: Git;
let commit: string;

beforeEach(async () => {
  ({ url } = await pusher.start({ SLUICE_ACCOUNTS: 'required', SLUICE_TOKEN: 'the-operator' }));
  work = await makeRepo(`${pusher.folder}/work`);
  commit = await commitFiles(work, { 'a.txt': pusher.folder });
});

async function makeToken(repoPattern: string, ...scopes: Scope[]): Promise<CreatedToken> {
  return await createToken(pusher.database.db, { name: 'alice', repoPattern, scopes, expiresInDays: 1 });
}

async function expire({ tokenId }: CreatedToken): Promise<void> {
  await pusher.database.db
    .updateTable('access_token')
    .set({ expires_at: sql<Date>`now() - interval '1 second'` })
    .where('token_id', '=', tokenId)
    .execute();
}

function remote(repoId: string, { token }: { token: string }): string {
  return `${url.replace('//', `//alice:${token}@`)}/${repoId}.git`;
}

function basic({ token }: { token: string }): { authorization: string } {
  return { authorization: `Basic ${Buffer.from(`alice:${token}`).toString('base64')}` };
}

async function refsOf(repoId: string): Promise<string[]> {
  const rows = await pusher.database.db
    .selectFrom('ref')
    .select('name')
    .where('repo_id', '=', repoId)
    .orderBy('name')
    .execute();
  return rows.map(({ name }) => name);
}

async function isKnown(repoId: string): Promise<boolean> {
  const row = await pusher.database.db
    .selectFrom('repo')
    .select('repo_id')
    .where('repo_id', '=', repoId)
    .executeTakeFirst();
  return row !== undefined;
}

test('a token with write makes a repository that it covers, pushes and clones, and is named in the record', async () => {
  const alice = await makeToken('one/*', 'write');
  await work(['push', '--quiet', remote('one/api', alice), 'main']);
  await gitIn(pusher.folder)(['clone', '--quiet', remote('one/api', alice), 'clone']);
  expect(await gitIn(`${pusher.folder}/clone`)(['rev-parse', 'HEAD'])).toBe(commit);
  const record = await pusher.database.db
    .selectFrom('op_record')
    .select('signer')
    .where('repo_id', '=', 'one/api')
    .executeTakeFirstOrThrow();
  expect(record.signer).toBe('token:alice');
  expect(pusher.events).toContainEqual(
    expect.objectContaining({ event: 'push_committed', signer: 'token:alice' }),
  );
  expect(JSON.stringify(pusher.events)).not.toContain(alice.token);
});

test('without a token, with a wrong one, an expired or a revoked one: 401, and git says what it heard', async () => {
  const operator = { token: 'the-operator' };
  await work(['push', '--quiet', remote('two/api', operator), 'main']);
  const [old, lost] = [await makeToken('*', 'admin'), await makeToken('*', 'admin')];
  await expire(old);
  await revokeToken(pusher.database.db, lost.tokenId);
  for (const service of ['git-upload-pack', 'git-receive-pack']) {
    const path = `${url}/two/api.git/info/refs?service=${service}`;
    expect((await send(path)).status).toBe(401);
    for (const [token, reason] of [
      [{ token: `${lost.token.slice(0, -1)}~` }, 'expected HTTP Basic credentials'],
      [old, 'this token has expired; ask for a new one'],
      [lost, 'this token was revoked; ask for a new one'],
    ] as const) {
      const answer = await send(path, { headers: basic(token) });
      expect(answer).toMatchObject({ status: 401, headers: { 'www-authenticate': expect.any(String) } });
      expect(answer.text).toContain(reason);
    }
  }
  await commitFiles(work, { 'b.txt': 'two' });
  for (const [token, reason] of [
    [old, 'has expired'],
    [lost, 'was revoked'],
  ] as const) {
    for (const args of [
      ['push', remote('two/api', token), 'main'],
      ['ls-remote', remote('two/api', token)],
    ]) {
      const refused = await work.attempt(args);
      expect([refused.code === 0, refused.stderr]).toEqual([false, expect.stringContaining(reason)]);
    }
  }
  expect((await work(['ls-remote', remote('two/api', operator), 'main'])).slice(0, 40)).toBe(commit);
});

test("another repository's token opens nothing, and does not learn what there is", async () => {
  await work(['push', '--quiet', remote('three/api', { token: 'the-operator' }), 'main']);
  const token = await makeToken('three/web', 'admin');
  const reason = 'this token of alice is for three/web, which does not cover';
  for (const repoId of ['three/api', 'three/none']) {
    for (const args of [
      ['push', remote(repoId, token), 'main'],
      ['ls-remote', remote(repoId, token)],
    ]) {
      const refused = await work.attempt(args);
      expect([refused.code === 0, refused.stderr]).toEqual([
        false,
        expect.stringContaining(`remote: ${reason} ${repoId}`),
      ]);
      expect(refused.stderr).toContain('403');
    }
  }
  expect(await isKnown('three/none')).toBe(false);
});

test('each scope opens what it is for', async () => {
  await work(['push', '--quiet', remote('four/api', { token: 'the-operator' }), 'main']);
  const statuses = async (scope: Scope): Promise<number[]> => {
    const headers = basic(await makeToken('four/*', scope));
    const paths = [
      'four/api.git/info/refs?service=git-upload-pack',
      'four/api.git/info/refs?service=git-receive-pack',
      '_claim/1/four/api.git/info/refs?service=git-receive-pack',
      '_metrics',
      '_health',
    ];
    return await Promise.all(paths.map(async (path) => (await send(`${url}/${path}`, { headers })).status));
  };
  // There is no claim 1: who may look hears that it is gone.
  expect(await statuses('read')).toEqual([200, 403, 403, 403, 200]);
  expect(await statuses('write')).toEqual([200, 200, 403, 403, 200]);
  expect(await statuses('admin')).toEqual([200, 200, 403, 403, 200]);
  expect(await statuses('worker')).toEqual([403, 403, 404, 403, 200]);
});

test('a push that goes on all the same is refused in a report, with the reason for each ref', async () => {
  const body = Buffer.concat([
    preamble([
      { new: commit, name: 'refs/heads/main' },
      { new: commit, name: 'refs/heads/b' },
    ]),
    await packOf(work, commit),
  ]);
  const lost = await makeToken('*', 'write');
  await revokeToken(pusher.database.db, lost.tokenId);
  for (const [token, reason] of [
    [await makeToken('five/*', 'read'), 'expected a token with write for five/api, got one with read'],
    [
      await makeToken('other/*', 'write'),
      'this token of alice is for other/*, which does not cover five/api',
    ],
    [lost, 'this token was revoked; ask for a new one'],
  ] as const) {
    const answer = await sendPush(`${url}/five/api.git`, body, basic(token));
    expect(answer.status).toBe(200);
    const report = reportOf(answer);
    expect(report).toContain(`ng refs/heads/main ${reason}\n`);
    expect(report).toContain(`ng refs/heads/b ${reason}\n`);
  }
  expect((await sendPush(`${url}/five/api.git`, body)).status).toBe(401);
  expect((await sendPush(`${url}/five/api.git`, body, basic({ token: 'sluice_' }))).status).toBe(401);
  expect(await isKnown('five/api')).toBe(false);
});

test('a push that mixes a branch with a definition is refused whole without admin, and taken with it', async () => {
  await defineEffect(work, 'ci', 'on: [refs/heads/*]\nrun: make\n');
  const both = ['main', 'refs/meta/effects/ci'];
  const writer = await makeToken('six/*', 'write');
  const refused = await work.attempt(['push', '--porcelain', remote('six/api', writer), ...both]);
  expect(refused.code).not.toBe(0);
  expect(refused.stdout).toMatch(
    /refs\/meta\/effects\/ci\t\[remote rejected\] \(expected a token with admin: /,
  );
  expect(refused.stdout).toMatch(/refs\/heads\/main\t\[remote rejected\] \(not applied: another ref/);
  expect(await isKnown('six/api')).toBe(false);

  for (const ref of ['refs/meta/config', 'refs/meta/members/alice', 'refs/meta']) {
    const one = await work.attempt(['push', remote('six/api', writer), `main:${ref}`]);
    expect(one.stderr).toContain('expected a token with admin');
  }
  await work(['push', '--quiet', remote('six/api', await makeToken('six/*', 'admin')), ...both]);
  expect(await refsOf('six/api')).toEqual(['refs/heads/main', 'refs/meta/effects/ci']);
  const removed = await work.attempt(['push', remote('six/api', writer), ':refs/meta/effects/ci']);
  expect(removed.stderr).toContain('expected a token with admin');
  const effect = await pusher.database.db
    .selectFrom('effect_queue')
    .select('payload')
    .where('repo_id', '=', 'six/api')
    .executeTakeFirstOrThrow();
  expect(JSON.parse(effect.payload)).toMatchObject({ push: { signer: 'token:alice' } });
});

test('a worker pushes the result of its claim, and nobody else does', async () => {
  await defineEffect(work, 'ci', 'on: [refs/heads/*]\nrun: make\n');
  await work([
    'push',
    '--quiet',
    remote('seven/api', { token: 'the-operator' }),
    'main',
    'refs/meta/effects/ci',
  ]);
  const [claim] = await claimEffects(pusher.database.db, { repoId: 'seven/api', claimedBy: 'w', limit: 1 });
  const decoded = decodeWorkOrder(claim!.payload);
  if ('problem' in decoded) throw new Error(decoded.problem);
  const json = JSON.stringify({
    effectId: String(claim!.effectId),
    attempt: claim!.attempt,
    outcome: 'pass',
  });
  const blob = await work(['hash-object', '-w', '--stdin'], { input: json });
  const tree = await work(['mktree'], { input: `100644 blob ${blob}\tresult.json\n` });
  const result = await work(['commit-tree', tree, '-m', 'Result']);
  const claimed = `_claim/${claim!.claimNumber}/seven/api`;
  const refspec = `${result}:${decoded.order.resultRef}`;

  const admin = await work.attempt(['push', remote(claimed, await makeToken('*', 'admin')), refspec]);
  expect(admin.stderr).toContain('expected a token with worker for seven/api, got one with admin');
  const worker = await makeToken('*', 'read', 'worker');
  expect((await send(`${url}/_metrics`, { headers: basic(worker) })).status).toBe(200);
  expect((await work.attempt(['push', remote('seven/api', worker), 'main:refs/heads/x'])).code).not.toBe(0);
  await work(['push', '--quiet', remote(claimed, worker), refspec]);
  expect(await refsOf('seven/api')).toContain(decoded.order.resultRef);
});

test('a token that is revoked while its push is under way does not get it committed', async () => {
  const alice = await makeToken('eight/*', 'write');
  await work(['push', '--quiet', remote('eight/api', alice), 'main']);
  const body = Buffer.concat([
    preamble([{ new: commit, name: 'refs/heads/second' }]),
    await packOf(work, commit),
  ]);
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const sending = request(`${url}/eight/api.git/git-receive-pack`, {
    method: 'POST',
    headers: { 'content-type': 'application/x-git-receive-pack-request', ...basic(alice) },
    agent: false,
  });
  sending.on('error', reject);
  sending.on('response', (response) => void text(response).then(resolve, reject));
  sending.write(body.subarray(0, -10));
  // Git unpacks by now, so the push was let in.
  const quarantine = `${pusher.folder}/data/repos/*/*/objects/tmp_objdir-incoming-*`;
  await vi.waitFor(() => expect(globSync(quarantine)).toHaveLength(1), { timeout: 20_000, interval: 20 });
  await revokeToken(pusher.database.db, alice.tokenId);
  sending.end(body.subarray(-10));
  expect(await promise).toContain('ng refs/heads/second this token was revoked; ask for a new one');
  expect(await refsOf('eight/api')).toEqual(['refs/heads/main']);
});
