import { findToken } from '@sluice/access';
import { useTestDatabase } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { runCli } from './run-cli.ts';

const database = useTestDatabase();
const cli = (...args: string[]) => runCli(args, { env: { DATABASE_URL: database.url } });

test('a token is printed once, listed without its text, and revoked by its number', async () => {
  expect(await cli('token', 'list')).toEqual({ code: 0, stdout: 'there are no tokens\n', stderr: '' });
  const made = await cli('token', 'create', 'alice', '--repo', 'acme/*', '--scope', 'write,read');
  expect(made.code).toBe(0);
  expect(made.stdout).toMatch(/^sluice_[A-Za-z0-9_-]{43}\n$/);
  const token = made.stdout.trim();
  expect(made.stderr).toMatch(
    /^token 1 of alice for acme\/\*: write, read; expires \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ\n/,
  );
  expect(made.stderr).toContain('alice may make at most 100 repositories with it (--max-repos).\n');
  expect(made.stderr).not.toContain(token);

  const listed = await cli('token', 'list');
  expect(listed.stdout).toMatch(/^1 +alice +acme\/\* +read,write +100 +\S+ \S+Z +\S+ \S+Z +valid$/m);
  expect(listed.stdout).not.toContain(token);

  expect(await cli('token', 'revoke', '1')).toEqual({
    code: 0,
    stdout: 'token 1 of alice is revoked\n',
    stderr: '',
  });
  expect(await findToken(database.db, token)).toMatchObject({ standing: 'revoked' });
  expect((await cli('token', 'list')).stdout).toMatch(/^1 .* revoked \S+ \S+Z$/m);
});

test('a token says how many repositories it may make, if it may make more than one', async () => {
  const create = async (...args: string[]) => (await cli('token', 'create', 'bob', ...args)).stderr;
  expect(await create('--repo', '*', '--scope', 'admin', '--max-repos', 'none')).toContain(
    'bob may make any number of repositories',
  );
  expect(await create('--repo', 'b/*', '--scope', 'write', '--max-repos', '0')).toContain(
    'at most 0 repositories',
  );
  expect(await create('--repo', 'b/*', '--scope', 'write', '--max-repos', '1')).toContain(
    'at most 1 repository with it',
  );
  expect(await create('--repo', 'b/*', '--scope', 'read')).not.toContain('may make');
  expect(await create('--repo', 'b/api', '--scope', 'write')).not.toContain('may make');
  expect((await cli('token', 'list')).stdout).toMatch(/^\d+ +bob +\* +admin +no limit +/m);
});

test('how many repositories a token may make is shown where it may push, and nowhere else', async () => {
  const limitOf = async (scopes: string): Promise<string | undefined> => {
    const { stderr } = await cli('token', 'create', 'carol', '--repo', 'c/*', '--scope', scopes);
    const id = /^token (\d+) /.exec(stderr)?.[1];
    const { stdout } = await cli('token', 'list');
    return new RegExp(`^${id} +carol +c/\\* +\\S+ +(\\S+) `, 'm').exec(stdout)?.[1];
  };
  expect(await limitOf('write')).toBe('100');
  expect(await limitOf('admin')).toBe('100');
  expect(await limitOf('read')).toBe('-');
  expect(await limitOf('worker')).toBe('-');
  expect(await limitOf('read,worker')).toBe('-');
});

test('a token that does not expire says so', async () => {
  const args = ['--repo', '*', '--scope', 'read,worker', '--expires-days', 'none'];
  const made = await cli('token', 'create', 'dispatcher', ...args);
  expect(made.stderr).toContain('of dispatcher for *: read, worker; does not expire');
});

test.each([
  [['create', 'alice', '--scope', 'read'], 2, '--repo <pattern>'],
  [['create', 'alice', '--repo', '*'], 2, '--scope <scopes>'],
  [['create', 'alice', '--repo', '*', '--scope', 'root'], 2, 'some of read,write,admin,worker'],
  [
    ['create', 'alice', '--repo', '*', '--scope', 'read', '--expires-days', '0'],
    2,
    'whole number from 1 to 36500, or none, got',
  ],
  [['create', 'alice', '--repo', 'acme*', '--scope', 'read'], 1, 'repo pattern: expected a repository'],
  [['create', 'two words', '--repo', '*', '--scope', 'read'], 1, 'name: expected one word'],
  [['create', 'alice', '--repo', '*', '--scope', 'write', '--max-repos', '-1'], 2, 'whole number from 0'],
  [['revoke', '77'], 1, 'there is no token 77'],
  [['revoke', 'alice'], 2, "<token>: expected a whole number from 1 to 9999999999, got 'alice'"],
])('token %j: exit code %i and why', async (args, code, reason) => {
  const result = await cli('token', ...args);
  expect(result).toMatchObject({ code, stdout: '' });
  expect(result.stderr).toContain(reason);
});
