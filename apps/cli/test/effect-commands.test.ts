import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod, mkdtemp, readFile, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createGit } from '../src/git.ts';
import { pushRef } from '../src/push-ref.ts';
import { runCli } from './run-cli.ts';

const exec = promisify(execFile);
const BUILD = "on: [refs/heads/*, '!refs/heads/wip/*']\nrun: make test\n";

let folder: string;
let env: Record<string, string>;
let bare: string;
let clone: string;

beforeEach(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), 'sluice-cli-')));
  bare = join(folder, 'bare.git');
  clone = join(folder, 'clone');
  env = {
    PATH: process.env['PATH'] ?? '',
    HOME: folder,
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: '/dev/null',
  };
  await git(folder, 'init', '--quiet', '--bare', 'bare.git');
  await git(folder, 'clone', '--quiet', 'bare.git', 'clone');
});

afterEach(() => rm(folder, { recursive: true, force: true }));

async function git(cwd: string, ...args: string[]): Promise<string> {
  return (await exec('git', args, { cwd, env })).stdout.trim();
}

async function definition(text: string, name = 'build.yaml'): Promise<string> {
  await writeFile(join(folder, name), text);
  return join('..', name);
}

const cli = (...args: string[]) => runCli(args, { cwd: clone, env });

describe('sluice effect', () => {
  it('adds, lists, shows, changes and removes a definition, and leaves the clone as it was', async () => {
    const file = await definition(BUILD);
    const added = await cli('effect', 'add', 'build', file);
    expect(added).toMatchObject({ code: 0, stderr: '' });
    const first = await git(bare, 'rev-parse', 'refs/meta/effects/build');
    expect(added.stdout).toBe(`added build on origin (${first.slice(0, 12)})\n`);
    expect(await git(bare, 'ls-tree', '-r', 'refs/meta/effects/build')).toMatch(
      /^100644 blob [0-9a-f]{40}\teffect\.yaml$/,
    );

    expect((await cli('effect', 'list')).stdout).toBe(
      [
        'NAME   COMMIT        ON                              RUNS',
        `build  ${first.slice(0, 12)}  refs/heads/* !refs/heads/wip/*  make test`,
        '',
      ].join('\n'),
    );
    expect(await cli('effect', 'show', 'build')).toEqual({ code: 0, stdout: BUILD, stderr: '' });

    expect((await cli('effect', 'add', 'build', file)).stdout).toBe(
      'build on origin is already this definition; nothing was pushed\n',
    );
    const changed = await cli('effect', 'add', 'build', await definition(BUILD.replace('test', 'check')));
    expect(changed.stdout).toMatch(/^changed build on origin /);
    expect(await git(bare, 'rev-parse', 'refs/meta/effects/build^')).toBe(first);

    expect(await git(clone, 'status', '--porcelain')).toBe('');
    expect(await git(clone, 'for-each-ref')).toBe('');
    await expect(git(clone, 'rev-parse', '--verify', 'FETCH_HEAD')).rejects.toThrow();

    expect((await cli('effect', 'remove', 'build')).stdout).toMatch(
      /^removed build from origin \(it was [0-9a-f]{12}\)\n$/,
    );
    expect(await git(bare, 'for-each-ref')).toBe('');
    expect((await cli('effect', 'list')).stdout).toBe(
      'no effects on origin; add one with sluice effect add <name> <file>\n',
    );
  });

  it('builds on what another clone pushed, without having it', async () => {
    await cli('effect', 'add', 'build', await definition(BUILD));
    await git(folder, 'clone', '--quiet', 'bare.git', 'other');
    const other = { cwd: join(folder, 'other'), env };
    const changed = await runCli(
      ['effect', 'add', 'build', await definition(`${BUILD}timeout: 5m\n`)],
      other,
    );
    expect(changed).toMatchObject({ code: 0, stderr: '' });
    expect(await git(bare, 'rev-list', '--count', 'refs/meta/effects/build')).toBe('2');
    expect((await cli('effect', 'show', 'build')).stdout).toContain('timeout: 5m');
  });

  it('refuses a malformed definition with each place before anything is pushed', async () => {
    const file = await definition('on: [main]\nrunn: make\n');
    expect(await cli('effect', 'add', 'build', file)).toEqual({
      code: 1,
      stdout: '',
      stderr: [
        'sluice: the definition is malformed; nothing was pushed',
        `${file}:1:1: expected "run" with shell text or "argv" with a program and its arguments, got neither`,
        `${file}:1:6: expected a full ref pattern such as refs/heads/*, got "main"`,
        `${file}:2:1: expected run, got the unknown key "runn"`,
        '  next: Correct each place and run it again.',
        '',
      ].join('\n'),
    });
    const large = await cli('effect', 'add', 'build', await definition(`${BUILD}#${'x'.repeat(70_000)}`));
    expect(large.stderr).toContain('expected at most 65536 bytes');
    expect(await git(bare, 'for-each-ref')).toBe('');
  });

  it('shows what the server says, and never overwrites a change it did not see', async () => {
    await cli('effect', 'add', 'build', await definition(BUILD));
    const hook = join(bare, 'hooks', 'update');
    await writeFile(
      hook,
      '#!/bin/sh\nprintf "effect \\033[31mbuild\\033[0m is fine, see http://bot:s3cret@host/x\\n"\n',
    );
    await chmod(hook, 0o755);
    const changed = await cli('effect', 'add', 'build', await definition(`${BUILD}network: true\n`));
    expect(changed.stdout).toMatch(
      /^remote: effect build is fine, see http:\/\/\*\*\*@host\/x\nchanged build/,
    );

    await writeFile(hook, '#!/bin/sh\necho "only owners may"\nexit 1\n');
    const refused = await cli('effect', 'remove', 'build');
    expect(refused.code).toBe(1);
    expect(refused.stdout).toMatch(/^remote: only owners may\n/);
    expect(refused.stderr).toMatch(/^sluice: origin refused the change: .*\n {2}next: .*\n$/);

    const stale = await git(bare, 'rev-parse', 'refs/meta/effects/build^');
    const output = { write: () => true };
    for (const from of [stale, null]) {
      const push = pushRef(
        createGit(clone, env),
        {
          remote: 'origin',
          ref: 'refs/meta/effects/build',
          what: 'build',
          look: 'sluice effect show build',
          from,
          to: stale,
        },
        output,
      );
      await expect(push).rejects.toThrow('build was changed on origin by someone else meanwhile');
    }
  });

  it('never shows a token that stands in the URL of a remote', async () => {
    await git(clone, 'remote', 'add', 'away', 'http://bot:s3cr3t-token@127.0.0.1:1/acme/api.git');
    const url = 'http://s3cr3t-token@127.0.0.1:1/acme/api.git';
    for (const remote of ['away', url]) {
      const { code, stdout, stderr } = await cli('effect', 'list', '--remote', remote);
      expect(code).toBe(1);
      expect(stderr).toMatch(
        /^sluice: the remote .* did not answer: [^\n]+\n {2}next: Nothing answers at its address/,
      );
      expect(stdout + stderr).not.toContain('s3cr3t-token');
    }
  });

  it('ends when git has ended, though a process that git started holds its output open', async () => {
    await cli('effect', 'add', 'build', await definition(BUILD));
    // As a wrapper for ssh that starts an agent, or keeps a connection for the next time.
    const pid = join(folder, 'agent.pid');
    const ssh = join(folder, 'ssh');
    await writeFile(ssh, `#!/bin/sh\nsleep 600 &\necho $! > ${pid}\nshift\nexec sh -c "$1"\n`, {
      mode: 0o755,
    });
    const through = { ...env, GIT_SSH_COMMAND: ssh, GIT_SSH_VARIANT: 'simple' };
    try {
      const listed = await runCli(['effect', 'list', '--remote', `host:${bare}`], {
        cwd: clone,
        env: through,
      });
      expect(listed).toMatchObject({ code: 0, stderr: '', stdout: expect.stringContaining('make test') });
      process.kill(Number(await readFile(pid, 'utf8')), 0);
    } finally {
      process.kill(Number(await readFile(pid, 'utf8')), 'SIGKILL');
    }
  });

  it('adds to a repository that the server does not know yet, since the first push makes it', async () => {
    const asked: string[] = [];
    const server = createServer((request, response) => {
      asked.push(request.url ?? '');
      response.writeHead(404).end();
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    try {
      const { port } = server.address() as AddressInfo;
      await git(clone, 'remote', 'add', 'new', `http://127.0.0.1:${port}/new.git`);
      expect((await cli('effect', 'list', '--remote', 'new')).stderr).toContain('is made by the first push');
      const added = await cli('effect', 'add', 'build', await definition(BUILD), '--remote', 'new');
      expect(added.stderr).toMatch(/^sluice: the push failed: repository /);
      expect(asked.some((url) => url.includes('git-receive-pack'))).toBe(true);
    } finally {
      server.close();
    }
  });

  it('says what to do next for the same remote', async () => {
    await git(clone, 'remote', 'add', 'away', bare);
    expect((await cli('effect', 'list', '--remote', 'away')).stdout).toBe(
      'no effects on away; add one with sluice effect add <name> <file> --remote away\n',
    );
    expect((await cli('effect', 'show', 'build', '--remote', 'away')).stderr).toContain(
      'sluice effect list --remote away shows the ones it has.',
    );
    expect((await cli('effect', 'show', 'build')).stderr).toContain(
      'sluice effect list shows the ones it has.',
    );
  });

  it('works where nobody told git a name, and takes the one it was told', async () => {
    await cli('effect', 'add', 'build', await definition(BUILD));
    expect(await git(bare, 'log', '-1', '--format=%an <%ae>', 'refs/meta/effects/build')).toBe(
      'sluice <sluice@localhost>',
    );
    await git(clone, 'config', 'user.name', 'Ada');
    await git(clone, 'config', 'user.email', 'ada@example.org');
    await cli('effect', 'add', 'other', await definition(BUILD));
    expect(await git(bare, 'log', '-1', '--format=%an <%ae>', 'refs/meta/effects/other')).toBe(
      'Ada <ada@example.org>',
    );
  });

  it('is not led astray by the environment of a hook', async () => {
    const led = { ...env, GIT_DIR: bare, GIT_INDEX_FILE: '/nowhere', GIT_OBJECT_DIRECTORY: '/nowhere' };
    const added = await runCli(['effect', 'add', 'build', await definition(BUILD)], { cwd: clone, env: led });
    expect(added).toMatchObject({ code: 0, stderr: '' });
  });

  it('lists a definition that is not one as malformed', async () => {
    const tree = await git(clone, 'hash-object', '-t', 'tree', '-w', '/dev/null');
    const commit = await git(
      clone,
      '-c',
      'user.name=a',
      '-c',
      'user.email=b',
      'commit-tree',
      '-m',
      'x',
      tree,
    );
    await git(clone, 'push', '--quiet', 'origin', `${commit}:refs/meta/effects/empty`);
    expect((await cli('effect', 'list')).stdout).toContain('malformed: no effect.yaml');
    expect((await cli('effect', 'show', 'empty')).stderr).toBe(
      'sluice: empty on origin holds no effect.yaml\n  next: Replace it with sluice effect add empty <file>.\n',
    );
  });

  it.each([
    [['effect', 'show', 'build'], 1, /the remote origin has no effect called build/],
    [['effect', 'remove', '../x'], 1, /expected an effect name .* got "\.\.\/x"/],
    [['effect', 'add', 'build', 'missing.yaml'], 1, /cannot read missing\.yaml: there is no such file/],
    [['effect', 'add', 'build', '.'], 1, /cannot read \.: it is a folder/],
    [['effect', 'list', '--remote', 'nowhere'], 1, /the remote nowhere did not answer/],
    [['effect', 'list', '--remote=--upload-pack=touch x'], 1, /expected a remote's name or URL/],
    [['effect', 'list', '--bogus'], 2, /unknown option '--bogus'/],
    [['effect', 'add', 'build'], 2, /missing required argument 'file'/],
    [['nonsense'], 2, /unknown command 'nonsense'/],
  ])('%j ends with %i and says what to do next', async (args, code, message) => {
    const result = await cli(...args);
    expect(result.code).toBe(code);
    expect(result.stderr).toMatch(message);
    expect(result.stderr).toMatch(/^sluice: [^\n]+\n {2}next: [^\n]+\n$/);
  });

  it('sends whoever uses a command wrongly to the help of that command', async () => {
    for (const [args, path] of [
      [['effect', 'add', 'build'], 'sluice effect add'],
      [['log'], 'sluice log'],
      [['repo', 'set', 'a', '--cap', '0'], 'sluice repo set'],
      [['nonsense'], 'sluice'],
    ] as const)
      expect((await cli(...args)).stderr).toContain(`\n  next: see ${path} --help\n`);
  });

  it('says which version it is', async () => {
    expect(await cli('--version')).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^sluice \d+\.\d+\.\d+\n$/),
    });
  });

  it('says which commands need the database, and which show what a push came to', async () => {
    const { code, stdout } = await cli('--help');
    expect(code).toBe(0);
    expect(stdout).toContain('After a push, sluice queue shows what became of its effects, and sluice log');
    expect(stdout).toContain(
      '\neffect, member and policy need git and a remote; the others need DATABASE_URL',
    );
  });

  it.each([
    [['log'], /\n {2}effect +its number, as git push and sluice queue show it/],
    [['cancel'], /\n {2}effect +its number/],
    [['rerun'], /\n {2}effect +its number/],
    [['op', 'show'], /\n {2}push +its id, as git push shows it/],
    [['token', 'create'], /\n {2}worker {2}push the results of effects/],
  ])('the help of %j says what it is given', async (args, text) => {
    expect(await cli(...args, '--help')).toMatchObject({ code: 0, stdout: expect.stringMatching(text) });
  });

  it('names the remotes that there are when there is none of the name that was asked for', async () => {
    await git(clone, 'remote', 'rename', 'origin', 'sluice');
    expect((await cli('effect', 'list')).stderr).toContain(
      '  next: This clone has no remote of that name. Name one with --remote: sluice.\n',
    );
  });

  it('says so outside a repository', async () => {
    const result = await runCli(['effect', 'list'], {
      cwd: folder,
      env: { ...env, GIT_CEILING_DIRECTORIES: folder },
    });
    expect(result.stderr).toContain('this folder is not in a git repository');
  });
});

describe('bin/sluice', () => {
  const bin = join(import.meta.dirname, '../bin/sluice');
  const ownNode = join(import.meta.dirname, '../../../node_modules/.bin/node');

  it.skipIf(!existsSync(ownNode))(
    'works from any folder, also by a link, and with an old Node in front on the PATH',
    async () => {
      const old = join(folder, 'node');
      await writeFile(old, '#!/bin/sh\nexit 1\n');
      await chmod(old, 0o755);
      const link = join(folder, 'linked');
      await symlink(bin, link);
      const { stdout } = await exec(link, ['--help'], {
        cwd: '/',
        env: { ...env, PATH: `${folder}:${env['PATH']}` },
      });
      expect(stdout).toMatch(/^Usage: sluice /);
    },
  );

  it('passes the exit code on', async () => {
    await expect(exec(bin, ['nonsense'], { cwd: folder, env })).rejects.toMatchObject({ code: 2 });
  });
});
