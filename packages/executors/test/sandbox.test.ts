import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { bubblewrapWorks, createBubblewrapExecutor } from '../src/index.ts';
import { runInFolder } from './run-in-folder.ts';

const executor = createBubblewrapExecutor();

describe('the sandbox', () => {
  it('shows nothing of this process, not even through /proc', async () => {
    vi.stubEnv('SLUICE_TOKEN', 'hunter2');
    const run = await runInFolder(
      executor,
      'cat /proc/1/environ /proc/$PPID/environ; cat ~/.pgpass ~/.netrc; cat /proc/*/cmdline | tr "\\0" " "; true',
    );
    vi.unstubAllEnvs();
    expect(run.status).toBe('pass');
    expect(run.text).not.toContain('hunter2');
    expect(run.text).not.toContain('vitest');
  });

  it('is read-only except for the work tree and private temporary folders', async () => {
    const run = await runInFolder(
      executor,
      'for p in /x /usr/x /etc/x /dev/x; do touch $p 2>/dev/null && echo "wrote $p"; done; touch /work/x /tmp/x /dev/shm/x ~/x && ls /home /root /var /run /sys /mnt 2>/dev/null; cat /etc/passwd',
    );
    expect(run).toMatchObject({
      status: 'pass',
      text: '/home:\neffect\neffect:x:1000:1000:effect:/home/effect:/bin/sh\n',
    });
  });

  it('has no capabilities, no way to new ones, and an ordinary user', async () => {
    const run = await runInFolder(
      executor,
      'id -u; grep -E "Cap(Eff|Bnd|Prm)|NoNewPrivs" /proc/self/status; unshare -U true 2>/dev/null || echo refused',
    );
    const none = '0000000000000000';
    expect(run.text).toBe(
      `1000\nCapPrm:\t${none}\nCapEff:\t${none}\nCapBnd:\t${none}\nNoNewPrivs:\t1\nrefused\n`,
    );
  });

  it('has a network only if granted', async () => {
    const server = createServer((socket) => socket.end('hello\n'));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void server.close());
    const { port } = server.address() as AddressInfo;
    const command = ['bash', '-c', `cat < /dev/tcp/127.0.0.1/${port}`];
    expect(await runInFolder(executor, command)).toMatchObject({ status: 'fail' });
    expect(await runInFolder(executor, command, { hasNetwork: true })).toMatchObject({
      status: 'pass',
      text: 'hello\n',
    });
  });

  it('reads the folders that were granted', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-granted-'));
    onTestFinished(() => rm(folder, { recursive: true }));
    await writeFile(join(folder, 'tool'), 'tool\n');
    const command = `cat ${folder}/tool; touch ${folder}/x`;
    expect(await runInFolder(createBubblewrapExecutor({ readOnlyPaths: [folder] }), command)).toMatchObject({
      status: 'fail',
      text: expect.stringMatching(/^tool\n.*Read-only/),
    });
  });

  it('applies loader variables inside only', async () => {
    const run = await runInFolder(executor, 'true', {
      env: { LD_PRELOAD: '/no/such/library.so', LD_LIBRARY_PATH: '/work' },
    });
    expect(run.status).toBe('pass');
    expect(run.text).toContain('/no/such/library.so');
  });

  it('tells its own failure from a failure of the command', async () => {
    const broken = createBubblewrapExecutor({ readOnlyPaths: ['/no/such/folder'] });
    expect(await runInFolder(broken, 'true')).toMatchObject({
      status: 'error',
      exitCode: null,
      reason:
        "the sandbox did not start: bwrap: Can't find source path /no/such/folder: No such file or directory",
    });
    // A command cannot pretend that the sandbox failed: bwrap's descriptors are not open inside.
    const pretender =
      'for fd in 3 4; do eval "echo \'{ \\"exit-code\\": 0 }\' >&$fd" 2>/dev/null && echo wrote; done; echo "bwrap: broken" >&2; exit 1';
    expect(await runInFolder(executor, pretender)).toMatchObject({
      status: 'fail',
      exitCode: 1,
      text: 'bwrap: broken\n',
    });
  });

  it('says what to do when bubblewrap is missing or a path is', async () => {
    vi.stubEnv('PATH', '/nonexistent');
    const missing = await bubblewrapWorks();
    vi.unstubAllEnvs();
    expect(missing).toEqual({
      works: false,
      reason: 'bwrap is not installed; install it with: apt-get install bubblewrap',
    });
    expect(await bubblewrapWorks({ readOnlyPaths: ['/no/such/folder'] })).toMatchObject({
      works: false,
      reason: expect.stringContaining('/no/such/folder'),
    });
  });
});
