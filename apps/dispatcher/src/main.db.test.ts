import { spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { encodeWorkOrder } from '@sluice/effect-spec';
import { useTestDatabase } from '@sluice/testkit';
import { describe, expect, it, onTestFailed, onTestFinished, vi } from 'vitest';
import { REPO, startFakePusher } from '../test/fake-pusher.ts';

const MAIN = fileURLToPath(new URL('main.ts', import.meta.url));
const database = useTestDatabase();
const WAIT = { timeout: 25_000, interval: 50 };

function startMain(env: Record<string, string>, args: readonly string[] = []) {
  const child = spawn(process.execPath, [MAIN, ...args], {
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  onTestFailed(() => void process.stderr.write(output.join('')));
  const output: string[] = [];
  child.stdout.on('data', (chunk: Buffer) => output.push(chunk.toString()));
  return {
    child,
    output: () => output.join(''),
    ended: Promise.all([once(child, 'exit'), text(child.stderr)]),
  };
}

async function countProcesses(mark: string): Promise<number> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const lines = await Promise.all(
    pids.map((pid) => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')),
  );
  return lines.filter((line) => line.startsWith('sleep') && line.includes(mark)).length;
}

describe('the dispatcher process', () => {
  it('runs what is queued, shows its health, and ends cleanly at SIGTERM', async () => {
    await using pusher = await startFakePusher({ token: 'hunter2' });
    const workDir = await mkdtemp(join(tmpdir(), 'sluice-work-'));
    onTestFinished(() => rm(workDir, { recursive: true, force: true }));
    const order = await pusher.order(
      { 'hello.txt': 'hello\n' },
      'run: cat hello.txt; cat /proc/1/environ; env\n',
    );
    await database.db
      .insertInto('effect_queue')
      .values({ repo_id: REPO, name: 'test', payload: encodeWorkOrder(order) })
      .execute();
    const { child, output, ended } = startMain({
      DATABASE_URL: database.url,
      SLUICE_PUSHER_URL: pusher.url,
      SLUICE_TOKEN: 'hunter2',
      SLUICE_WORK_DIR: workDir,
      SLUICE_HEALTH_LISTEN: '127.0.0.1:0',
      SLUICE_EXECUTOR: 'bubblewrap',
    });
    await vi.waitFor(
      async () => expect(await pusher.git(['for-each-ref', order.resultRef])).not.toBe(''),
      WAIT,
    );
    const log = await pusher.git(['cat-file', 'blob', `${order.resultRef}:log`]);
    expect(log).toContain('hello\n');
    expect(log).not.toContain('hunter2');
    const health = /"health":"([^"]+)"/.exec(output())?.[1];
    expect((await fetch(`${health}/_health`)).status).toBe(200);
    const metrics = await (await fetch(`${health}/_metrics`)).text();
    expect(metrics).toContain('sluice_effects_claimed_total 1');
    expect(metrics).toMatch(/^sluice_queue_oldest_waiting_seconds \d/m);
    const stored = await database.db.selectFrom('effect_log').select('bytes').orderBy('seq').execute();
    expect(
      Buffer.concat(stored.map(({ bytes }) => bytes))
        .toString()
        .trim(),
    ).toBe(log);
    child.kill('SIGTERM');
    const [exit, errors] = await ended;
    expect([exit, errors]).toEqual([[0, null], '']);
    expect(output()).not.toContain('hunter2');
    expect(await database.db.selectFrom('dispatcher').selectAll().execute()).toEqual([]);
  });

  it.each([
    ['SIGKILL', [], [null, 'SIGKILL']],
    ['SIGINT', ['SIGINT'], [130, null]],
  ] as const)('leaves no process of an effect behind after %s %j', async (first, further, exit) => {
    await using pusher = await startFakePusher();
    const workDir = await mkdtemp(join(tmpdir(), 'sluice-work-'));
    onTestFinished(() => rm(workDir, { recursive: true, force: true }));
    const seconds = `30${randomInt(1e8, 1e9)}`;
    const order = await pusher.order(
      { a: '' },
      `run: trap "" TERM INT; setsid sleep ${seconds} & sleep ${seconds}\n`,
    );
    const { effect_id: effectId } = await database.db
      .insertInto('effect_queue')
      .values({ repo_id: REPO, name: 'test', payload: encodeWorkOrder(order) })
      .returning('effect_id')
      .executeTakeFirstOrThrow();
    const { child, ended, output } = startMain({
      DATABASE_URL: database.url,
      SLUICE_PUSHER_URL: pusher.url,
      SLUICE_WORK_DIR: workDir,
      SLUICE_EXECUTOR: 'bubblewrap',
      SLUICE_GRACE_MS: '600000',
    });
    await vi.waitFor(async () => expect(await countProcesses(seconds)).toBeGreaterThanOrEqual(2), WAIT);
    child.kill(first);
    for (const signal of further) {
      await vi.waitFor(() => expect(output()).toContain('shutdown_started'), WAIT);
      // Counted from the first signal's handling: closer together, two signals are one key press.
      await setTimeout(300);
      child.kill(signal);
    }
    expect((await ended)[0]).toEqual(exit);
    await vi.waitFor(async () => expect(await countProcesses(seconds)).toBe(0), WAIT);
    const claims = await database.db
      .selectFrom('effect_claim')
      .select('claimant')
      .where('effect_id', '=', effectId)
      .execute();
    expect(claims).toHaveLength(first === 'SIGKILL' ? 1 : 0);
    await database.db.deleteFrom('effect_queue').where('effect_id', '=', effectId).execute();
  });

  it.each([
    [{ SLUICE_EXECUTOR: 'host' }, [], 'start with --unsandboxed'],
    [{ SLUICE_EXECUTOR: 'host', SLUICE_LOCAL: '1', NODE_ENV: 'production' }, [], 'start with --unsandboxed'],
    [{ SLUICE_SLOTS: 'x' }, [], 'SLUICE_SLOTS: expected a whole number'],
    [{}, ['--help'], 'expected none or --unsandboxed'],
  ])('refuses to start with %j %j in one sentence', async (env, args, message) => {
    const { ended } = startMain({ DATABASE_URL: database.url, ...env }, args);
    const [exit, errors] = await ended;
    expect(exit).toEqual([1, null]);
    expect(errors).toContain(message);
    expect(errors).not.toContain('    at ');
  });

  it('refuses a read-only database in one sentence', async () => {
    const url = `${database.url}?options=-c%20default_transaction_read_only%3Don`;
    const { ended } = startMain({ DATABASE_URL: url, SLUICE_LOCAL: '1' });
    const [exit, errors] = await ended;
    expect(exit).toEqual([1, null]);
    expect(errors).toContain(
      'DATABASE_URL: expected a server that accepts writes, got one whose sessions are read-only.',
    );
    expect(errors).not.toContain('    at ');
  });
});
