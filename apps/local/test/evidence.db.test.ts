import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { commitFileAt, commitFiles, makeKey, makeRepo, signingWith, useTestDatabase } from '@sluice/testkit';
import { expect, test, vi } from 'vitest';
import { useSystem } from './support/use-system.ts';

vi.setConfig({ testTimeout: 300_000 });
const database = useTestDatabase();
const system = useSystem(database);
const SLUICE = fileURLToPath(new URL('../../cli/bin/sluice', import.meta.url));
const PAGE = fileURLToPath(new URL('../../../docs/members.md', import.meta.url));

interface Ended {
  code: number;
  stdout: string;
  stderr: string;
}

/** Runs a program as an operator on the pusher's machine would. */
async function run(
  file: string,
  args: string[],
  env: Record<string, string> = {},
  cwd = '/',
): Promise<Ended> {
  const environment = {
    PATH: `${dirname(SLUICE)}:${process.env['PATH']}`,
    HOME: system.folder,
    DATABASE_URL: database.url,
    SLUICE_DATA_DIR: join(system.folder, 'data'),
    ...env,
  };
  return await new Promise((resolve) => {
    execFile(file, args, { env: environment, cwd }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
    );
  });
}

test.each(['sha1', 'sha256'] as const)(
  'where signatures are required, a signed push verifies outside of Sluice, as docs/members.md says (%s)',
  async (objectFormat) => {
    const pusher = await system.startPusher();
    const remote = `${pusher.url}/${objectFormat === 'sha256' ? '_sha256/' : ''}acme/${objectFormat}.git`;
    const work = await makeRepo(join(system.folder, 'work'), { objectFormat });
    const [admin, alice] = [makeKey(system.folder, 'admin'), makeKey(system.folder, 'alice')];
    await commitFileAt(
      work,
      'refs/meta/members/lead',
      'member.yaml',
      `role: admin\nkeys: [${admin.publicKey}]\n`,
    );
    await commitFileAt(
      work,
      'refs/meta/members/alice',
      'member.yaml',
      `role: writer\nkeys: [${alice.publicKey}]\n`,
    );
    await commitFileAt(
      work,
      'refs/meta/config',
      'policy.yaml',
      'rules:\n  refs/heads/**: { attestation: required }\n',
    );
    await work(['push', '--quiet', remote, 'refs/meta/members/*', 'refs/meta/config']);
    await commitFiles(work, { 'a.txt': 'one' });
    expect((await work.attempt(['push', remote, 'main'])).stderr).toContain(
      'expected a signed push: git push --signed',
    );
    const pushed = await work.attempt([
      ...signingWith(alice),
      'push',
      '--signed',
      '-o',
      'note=hello',
      remote,
      'main',
    ]);
    const PUSH = /remote: push ([0-9a-f]+)/.exec(pushed.stderr)?.[1] ?? 'none';

    const scratch = await makeRepo(join(system.folder, 'scratch'), { objectFormat });
    const { stdout: keys } = await run(SLUICE, ['key', 'list']);
    // The newest one: each test has a server of its own.
    const serverKey = keys.match(/ssh-ed25519 \S+/g)?.at(-1);
    writeFileSync(
      join(scratch.folder, 'signers'),
      `sluice@localhost ${serverKey}\nalice ${alice.publicKey}\n`,
    );
    const [, script = 'false'] = /```sh\n([^]*?)```/.exec(readFileSync(PAGE, 'utf8')) ?? [];
    expect(await run('sh', ['-ec', script], { PUSH }, scratch.folder)).toEqual({
      code: 0,
      stdout: expect.stringMatching(
        /^Good "git" signature for sluice@localhost with ED25519 key \S+\nGood "git" signature for alice with ED25519 key \S+\n$/,
      ),
      stderr: '',
    });
    // The same with what was fetched, once something in it is changed.
    const offline = script.replaceAll(/^sluice .*$/gm, ':');
    for (const [file, from, to] of [
      ['record', 'Seq: 2', 'Seq: 3'],
      ['edits', 'heads/main', 'heads/evil'],
      ['certificate', 'note=hello', 'note=hullo'],
      ['signers', alice.publicKey, admin.publicKey],
    ] as const) {
      const path = join(scratch.folder, file);
      const text = readFileSync(path, 'utf8');
      expect(text).toContain(from);
      writeFileSync(path, text.replace(from, to));
      expect([file, (await run('sh', ['-ec', offline], { PUSH }, scratch.folder)).code]).not.toEqual([
        file,
        0,
      ]);
      writeFileSync(path, text);
    }
    expect((await run('sh', ['-ec', offline], { PUSH }, scratch.folder)).code).toBe(0);
    const { stdout: shown } = await run(SLUICE, ['op', 'show', PUSH]);
    expect(shown).toMatch(/^pushed by +member:alice$/m);
    expect(shown).toMatch(/^push option +note=hello$/m);
    const verified = await run(SLUICE, ['op', 'verify', `acme/${objectFormat}`]);
    expect(verified).toEqual({ code: 0, stdout: `acme/${objectFormat}: 2 pushes, all fits\n`, stderr: '' });
  },
);
