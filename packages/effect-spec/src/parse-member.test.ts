import { expect, test } from 'vitest';
import { parseMember } from './parse-member.ts';

const KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJyFMwMxW1tGZ0AVQ/3lYaT2zPLqXwAQqFjSxL4Kvlqn';

test('a member has a role and keys, compared without their comments', () => {
  expect(parseMember(`role: writer\nkeys:\n  - ${KEY} alice@laptop\n`)).toEqual({
    member: { role: 'writer', revoked: false, keys: [KEY] },
  });
  expect(parseMember(`{role: admin, revoked: true, keys: ['${KEY}']}`)).toEqual({
    member: { role: 'admin', revoked: true, keys: [KEY] },
  });
});

test.each([
  ['', 'a mapping with "role" and "keys", got nothing'],
  [`keys: ['${KEY}']`, 'expected "role"'],
  ['role: admin', 'expected "keys"'],
  [`role: owner\nkeys: ['${KEY}']`, 'expected admin, writer, worker, got "owner"'],
  ['role: admin\nkeys: []', 'expected 1 to 50 keys, got 0'],
  ['role: admin\nkeys: text', 'expected a list of SSH public keys'],
  [`role: admin\nrevoked: soon\nkeys: ['${KEY}']`, 'expected true or false'],
  ["role: admin\nkeys: ['ssh-dss AAAA']", 'expected a line of a .pub file'],
  [`role: admin\nkeys: ['${KEY.replace('ssh-ed25519', 'ssh-rsa')}']`, 'expected a line of a .pub file'],
  [`role: admin\nkeys: ['command="x" ${KEY}']`, 'expected a line of a .pub file'],
  [`role: admin\nkeys: ['${KEY}!']`, 'expected a line of a .pub file'],
  ["role: admin\nkeys: ['ssh-ed25519-cert-v01@openssh.com AAAA']", 'expected a line of a .pub file'],
])('%j is refused', (text, message) => {
  expect(parseMember(text)).toMatchObject({
    problems: expect.arrayContaining([
      expect.objectContaining({ message: expect.stringContaining(message) }),
    ]),
  });
});
