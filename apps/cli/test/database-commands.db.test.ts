import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { useEmptyDatabase, useTestDatabase } from '@sluice/testkit';
import { afterEach, describe, expect, it } from 'vitest';
import { readDatabaseUrl } from '../src/settings.ts';
import { runCli } from './run-cli.ts';

const empty = useEmptyDatabase();
const migrated = useTestDatabase();

const onEmpty = (...args: string[]) => runCli(args, { env: { DATABASE_URL: empty.url } });
const cli = (...args: string[]) => runCli(args, { env: { DATABASE_URL: migrated.url } });

describe('sluice migrate', () => {
  it('is asked for by every other command, applies what is missing, and then finds nothing to do', async () => {
    const before = await onEmpty('repo', 'show', 'acme/api');
    expect(before.code).toBe(1);
    expect(before.stderr).toMatch(
      /^sluice: Schema sluice: expected migration .*\n {2}next: Run sluice migrate/,
    );
    expect((await onEmpty('migrate')).stdout).toMatch(/^(applied \S+\n)+the schema is up to date now\n$/);
    expect(await onEmpty('migrate')).toEqual({ code: 0, stdout: 'the schema is up to date\n', stderr: '' });
  });
});

describe('sluice repo', () => {
  it('sets and shows limits, and only those it was told', async () => {
    const unknown = await cli('repo', 'show', 'acme/api');
    expect(unknown).toMatchObject({ code: 1, stdout: '' });
    expect(unknown.stderr).toContain('there is no repository called acme/api');

    const set = await cli('repo', 'set', 'acme/api', '--cap', '3', '--max-queued', '0');
    expect(set).toMatchObject({
      code: 0,
      stderr: 'nobody has pushed to acme/api yet; the limits wait for it\n',
    });
    expect(set.stdout.split('\n')).toEqual([
      'repository  acme/api',
      'cap         3',
      'weight      1',
      'max queued  0',
      'paused      no',
      'objects     sha1',
      'head        refs/heads/main',
      'pushes      0',
      'last push   none yet',
      '',
    ]);
    const next = await cli('repo', 'set', 'acme/api', '--weight', '7', '--max-queued', 'none');
    expect(next.stdout).toMatch(/cap {9}3\nweight {6}7\nmax queued {2}no limit\n/);
    expect((await cli('repo', 'set', 'acme/api', '--cap', 'none')).stdout).toContain(
      "the dispatcher's default",
    );
    expect((await cli('repo', 'show', 'acme/api')).stdout).toContain('weight      7');
  });

  it('pauses, keeps since when, and resumes', async () => {
    const first = (await cli('repo', 'set', 'acme/web', '--pause')).stdout;
    expect(first).toMatch(/paused {6}since \d{4}-/);
    expect((await cli('repo', 'set', 'acme/web', '--pause', '--weight', '1')).stdout).toBe(first);
    expect((await cli('repo', 'set', 'acme/web', '--resume')).stdout).toContain('paused      no');
  });

  it.each([
    ...['0', '-1', '100001', '2147483648', '99999999999', 'NaN', '1e3', ''].map(
      (cap): [string[], number, RegExp] => [['--cap', cap], 2, /from 1 to 100000/],
    ),
    ...['0', '-1', '1.5', 'NaN', '1000000000', 'Infinity'].map((weight): [string[], number, RegExp] => [
      ['--weight', weight],
      2,
      /from 1 to 1000/,
    ]),
    [['--max-queued', '-1'], 2, /max-queued/],
    [['--pause', '--resume'], 2, /cannot be used with/],
    [[], 1, /expected something to set/],
  ])('refuses %j', async (options, code, message) => {
    const result = await cli('repo', 'set', 'acme/api', ...options);
    expect(result.code).toBe(code);
    expect(result.stderr).toMatch(message);
    expect(result.stderr).toMatch(/^sluice: [^\n]+\n {2}next: [^\n]+\n$/);
  });

  it('refuses a name that no repository can have', async () => {
    expect((await cli('repo', 'set', 'a b', '--pause')).stderr).toContain(
      'expected a repository such as acme/api, got "a b"',
    );
  });
});

describe('sluice limit', () => {
  it('sets and shows the global cap', async () => {
    expect((await cli('limit', 'show')).stdout.split('\n')).toEqual([
      'global cap             no limit',
      'running                0',
      'repositories with work 0',
      '',
    ]);
    const set = await cli('limit', 'set', '--global-cap', '40');
    expect(set).toMatchObject({ code: 0, stderr: '' });
    expect(set.stdout).toMatch(/^global cap {13}40\n/);
    expect((await cli('limit', 'show')).stdout).toBe(set.stdout);
    expect((await cli('limit', 'set', '--global-cap', 'none')).stdout).toMatch(/no limit/);
  });

  it.each([
    ...['0', '-1', '2147483648', 'NaN', '1.5'].map((cap): [string[], number, RegExp] => [
      ['--global-cap', cap],
      2,
      /from 1 to 2147483647/,
    ]),
    [[], 1, /expected something to set/],
  ])('refuses %j', async (options, code, message) => {
    const result = await cli('limit', 'set', ...options);
    expect(result.code).toBe(code);
    expect(result.stderr).toMatch(message);
    expect(result.stderr).toMatch(/^sluice: [^\n]+\n {2}next: [^\n]+\n$/);
  });

  it('says so when the database accepts no writes', async () => {
    const env = { DATABASE_URL: `${migrated.url}?options=-c%20default_transaction_read_only%3Don` };
    expect((await runCli(['limit', 'show'], { env })).code).toBe(0);
    const refused = await runCli(['limit', 'set', '--global-cap', '1'], { env });
    expect(refused).toEqual({
      code: 1,
      stdout: '',
      stderr:
        'sluice: The database accepts no writes: it is a standby or in read-only mode.\n  next: Point DATABASE_URL at the primary server.\n',
    });
  });
});

describe('the database', () => {
  let folder: string | undefined;
  afterEach(() => (folder === undefined ? undefined : rm(folder, { recursive: true, force: true })));

  it('is the one of the local start when DATABASE_URL is not set', async () => {
    folder = await mkdtemp(join(tmpdir(), 'sluice-cli-'));
    await expect(readDatabaseUrl({}, folder)).rejects.toThrow(
      /expected DATABASE_URL, or a running local start/,
    );
    await mkdir(join(folder, '.sluice'));
    const file = join(folder, '.sluice', 'local.json');
    await writeFile(file, JSON.stringify({ databaseUrl: migrated.url, pusherUrl: 'http://127.0.0.1:7420' }));
    expect(await readDatabaseUrl({}, folder)).toBe(migrated.url);
    expect(await readDatabaseUrl({ SLUICE_DATA_DIR: join(folder, '.sluice') }, '/nowhere')).toBe(
      migrated.url,
    );
    expect(await readDatabaseUrl({ DATABASE_URL: 'postgres://h/d' }, folder)).toBe('postgres://h/d');
    for (const broken of ['', '{}', '[]', '{"databaseUrl":5}', '{"databaseUrl":"mysql://h/d"}']) {
      await writeFile(file, broken);
      await expect(readDatabaseUrl({}, folder)).rejects.toThrow(
        /expected a URL that starts with postgres:\/\//,
      );
    }
  });

  it.each([
    ['postgres://bot:s3cr3t-token@127.0.0.1:1/x', /^sluice: The database did not answer/],
    ['mysql://bot:s3cr3t-token@127.0.0.1/x', /expected a URL that starts with postgres:\/\//],
  ])('that cannot be used is explained without its password: %#', async (url, message) => {
    const result = await runCli(['queue'], { env: { DATABASE_URL: url } });
    expect(result.code).toBe(1);
    expect(result.stderr).toMatch(message);
    expect(result.stderr).toMatch(/^sluice: [^\n]+\n {2}next: [^\n]+\n$/);
    expect(result.stderr).not.toContain('s3cr3t-token');
  });

  it('that does not exist is named', async () => {
    const missing = new URL(migrated.url);
    missing.pathname = '/no_such_database';
    const result = await runCli(['repo', 'show', 'x'], { env: { DATABASE_URL: missing.href } });
    expect(result.stderr).toMatch(
      /^sluice: the database refused: database "no_such_database" does not exist\n {2}next: Check/,
    );
  });
});
