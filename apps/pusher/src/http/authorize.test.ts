import type { IncomingMessage } from 'node:http';
import { expect, test } from 'vitest';
import { createAuthorizer } from './authorize.ts';

const loopback = { host: '127.0.0.1', port: 7420 };

function request(headers: Record<string, string>): IncomingMessage {
  return { headers } as unknown as IncomingMessage;
}

function basic(text: string): IncomingMessage {
  return request({ authorization: `Basic ${Buffer.from(text).toString('base64')}` });
}

test.each(['0.0.0.0', '::', '192.168.1.7', 'example.org'])(
  'without a token, %s is no place to listen',
  (host) => {
    expect(() => createAuthorizer(undefined, { host, port: 7420 })).toThrow(
      /SLUICE_LISTEN: expected a loopback address/,
    );
    expect(() => createAuthorizer('secret', { host, port: 7420 })).not.toThrow();
  },
);

test.each(['127.0.0.1:7420', 'localhost', 'LOCALHOST:1', '[::1]:7420', '127.8.9.1'])(
  'Host %s is this machine',
  (host) => {
    expect(createAuthorizer(undefined, loopback)(request({ host })).isAllowed).toBe(true);
  },
);

test.each([
  'evil.example',
  'localhost.evil.example:7420',
  '',
  '127.0.0.1.evil.example',
  '127.0.0.1:80:80',
  '[::2]',
])('Host %s is not', (host) => {
  expect(createAuthorizer(undefined, loopback)(request({ host }))).toMatchObject({
    isAllowed: false,
    status: 403,
  });
});

test('the token is the password, whatever the user name, and it may hold colons', () => {
  const authorize = createAuthorizer('to:ken-é', { host: '0.0.0.0', port: 7420 });
  expect(authorize(basic('anyone:to:ken-é')).isAllowed).toBe(true);
  expect(authorize(basic(':to:ken-é')).isAllowed).toBe(true);
  for (const wrong of ['to:ken-é', 'x:to:ken', 'x:', '', 'to:ken-é:x']) {
    expect(authorize(basic(wrong))).toMatchObject({ isAllowed: false, status: 401 });
  }
  expect(authorize(request({}))).toMatchObject({
    status: 401,
    headers: { 'www-authenticate': expect.any(String) },
  });
  expect(authorize(request({ authorization: 'Bearer to:ken-é' }))).toMatchObject({ status: 401 });
});
