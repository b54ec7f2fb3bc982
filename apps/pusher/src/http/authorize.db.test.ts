import { timingSafeEqual } from 'node:crypto';
import { createToken, revokeToken } from '@sluice/access';
import type { IncomingMessage } from 'node:http';
import { useTestDatabase } from '@sluice/testkit';
import { expect, test, vi } from 'vitest';
import { createAuthorizer, type Authorize } from './authorize.ts';

vi.mock('node:crypto', { spy: true });

const database = useTestDatabase();
const LOOPBACK = '127.0.0.1';

interface Rules {
  host?: string;
  token?: string;
  accounts?: 'off' | 'required';
}

function authorizer({ host = LOOPBACK, token, accounts = 'off' }: Rules): Authorize {
  return createAuthorizer({ token, accounts, listen: { host, port: 7420 } }, database.db);
}

function request(headers: Record<string, string>): IncomingMessage {
  return { headers } as unknown as IncomingMessage;
}

function basic(text: string): IncomingMessage {
  return request({ authorization: `Basic ${Buffer.from(text).toString('base64')}` });
}

const ASKS_FOR_A_PASSWORD = { status: 401, headers: { 'www-authenticate': expect.any(String) } };

test.each(['0.0.0.0', '::', '192.168.1.7', 'example.org'])(
  'without a token or accounts, %s is no place to listen',
  (host) => {
    expect(() => authorizer({ host })).toThrow(/SLUICE_LISTEN: expected a loopback address/);
    expect(() => authorizer({ host, token: 'secret' })).not.toThrow();
    expect(() => authorizer({ host, accounts: 'required' })).not.toThrow();
  },
);

test.each(['127.0.0.1:7420', 'localhost', 'LOCALHOST:1', '[::1]:7420', '127.8.9.1'])(
  'Host %s is this machine',
  async (host) => {
    const caller = await authorizer({})(request({ host }));
    expect(caller.judge('admin', 'any/repo')).toBeNull();
  },
);

test.each([
  'evil.example',
  'localhost.evil.example:7420',
  '',
  '127.0.0.1.evil.example',
  '127.0.0.1:80:80',
  '[::2]',
])('Host %s is not', async (host) => {
  await expect(authorizer({})(request({ host }))).rejects.toMatchObject({ status: 403, headers: {} });
});

test('the token is the password, whatever the user name, and it may hold colons', async () => {
  const authorize = authorizer({ host: '0.0.0.0', token: 'to:ken-é' });
  for (const right of ['anyone:to:ken-é', ':to:ken-é']) {
    const caller = await authorize(basic(right));
    expect([caller.signer, caller.judge('admin', 'a'), caller.judgeServer()]).toEqual([null, null, null]);
  }
  for (const wrong of ['to:ken-é', 'x:to:ken', 'x:', '', 'to:ken-é:x']) {
    await expect(authorize(basic(wrong))).rejects.toMatchObject(ASKS_FOR_A_PASSWORD);
  }
  await expect(authorize(request({}))).rejects.toMatchObject(ASKS_FOR_A_PASSWORD);
  const bearer = request({ authorization: 'Bearer to:ken-é' });
  await expect(authorize(bearer)).rejects.toMatchObject(ASKS_FOR_A_PASSWORD);
});

test('a guess at the token is compared by its hash, whole, whatever it has in common with it', async () => {
  const authorize = authorizer({ host: '0.0.0.0', token: 'secret' });
  for (const guess of ['', 's', 'secre', 'secret', 'secret!', 'x'.repeat(5_000)]) {
    vi.mocked(timingSafeEqual).mockClear();
    await authorize(basic(`x:${guess}`)).catch(() => undefined);
    const compared = vi.mocked(timingSafeEqual).mock.calls.map(([a, b]) => [a.byteLength, b.byteLength]);
    expect(compared).toEqual([[32, 32]]);
  }
});

test('with accounts, an access token is a password too, and only then', async () => {
  const { db } = database;
  const { token, tokenId } = await createToken(db, {
    name: 'alice',
    repoPattern: 'acme/*',
    scopes: ['write'],
    expiresInDays: 1,
  });
  const authorize = authorizer({ accounts: 'required', token: 'secret' });
  expect((await authorize(basic('x:secret'))).judge('admin', 'other/api')).toBeNull();
  const alice = await authorize(basic(`x:${token}`));
  expect(alice.signer).toBe('token:alice');
  expect(alice.judge('write', 'acme/api')).toBeNull();
  expect(alice.judge('read', 'acme/api')).toBeNull();
  expect(alice.judge('admin', 'acme/api')).toEqual({
    status: 403,
    reason: 'expected a token with admin for acme/api, got one with write',
  });
  expect(alice.judge('worker', 'acme/api')).toMatchObject({ status: 403 });
  expect(alice.judge('write', 'other/api')).toEqual({
    status: 403,
    reason: 'this token of alice is for acme/*, which does not cover other/api',
  });
  expect(alice.judgeServer()).toMatchObject({ status: 403 });
  expect(await alice.judgeAgain(db)).toBeNull();

  await revokeToken(db, tokenId);
  const gone = { status: 401, reason: 'this token was revoked; ask for a new one' };
  expect(await alice.judgeAgain(db)).toEqual(gone);
  expect((await authorize(basic(`x:${token}`))).judge('read', 'acme/api')).toEqual(gone);

  for (const wrong of ['x:secret2', `x:${token}x`, `x:${token.slice(0, -1)}`, 'x:']) {
    await expect(authorize(basic(wrong))).rejects.toMatchObject(ASKS_FOR_A_PASSWORD);
  }
  await expect(authorizer({ token: 'secret' })(basic(`x:${token}`))).rejects.toMatchObject(
    ASKS_FOR_A_PASSWORD,
  );
});

test('what concerns the whole server is for admins and workers of all repositories', async () => {
  const { db } = database;
  const authorize = authorizer({ accounts: 'required' });
  const judge = async (repoPattern: string, scope: 'admin' | 'worker' | 'write'): Promise<boolean> => {
    const made = await createToken(db, { name: 'x', repoPattern, scopes: [scope], expiresInDays: 1 });
    return (await authorize(basic(`:${made.token}`))).judgeServer() === null;
  };
  expect(await judge('*', 'admin')).toBe(true);
  expect(await judge('*', 'worker')).toBe(true);
  expect(await judge('*', 'write')).toBe(false);
  expect(await judge('acme/*', 'admin')).toBe(false);
});
