import { expect, test } from 'vitest';
import { editMember, memberKeyLines } from './edit-member.ts';
import { parseMember } from './parse-member.ts';

const KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJyFMwMxW1tGZ0AVQ/3lYaT2zPLqXwAQqFjSxL4Kvlqn';
const OTHER = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINyFMwMxW1tGZ0AVQ/3lYaT2zPLqXwAQqFjSxL4Kvlqn';

test('a new member is written so that a person can read it', () => {
  const text = editMember(null, { role: 'writer', addKey: `${KEY} alice@laptop` });
  expect(text).toBe(`role: writer\nkeys:\n  - ${KEY} alice@laptop\n`);
});

test('a change keeps what it does not name, comments included', () => {
  const text = Buffer.from(`# of the team\nrole: writer # for now\nkeys:\n  - ${KEY} laptop\n  - ${OTHER}\n`);
  expect(editMember(text, { role: 'admin' })).toBe(text.toString().replace('writer', 'admin'));
  expect(editMember(text, { removeKey: OTHER })).toBe(text.toString().replace(`  - ${OTHER}\n`, ''));
  expect(editMember(text, { revoked: true })).toBe(`${text.toString()}revoked: true\n`);
  expect(memberKeyLines(text)).toEqual([`${KEY} laptop`, OTHER]);
});

test.each(['a: b', 'x # y', '"quoted', '- dash', 'ünïcode 🔑', '{[&*!|>'])(
  'a key with the comment %j is read back as it was',
  (comment) => {
    const text = Buffer.from(editMember(null, { role: 'admin', addKey: `${KEY} ${comment}` }));
    expect(parseMember(text)).toEqual({ member: { role: 'admin', revoked: false, keys: [KEY] } });
    expect(memberKeyLines(text)).toEqual([`${KEY} ${comment}`]);
  },
);
