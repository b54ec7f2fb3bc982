import { expect, it } from 'vitest';
import { createRegistry } from './health.ts';
import { startHealthServer } from './start-health-server.ts';

const listen = { host: '127.0.0.1', port: 0 };
const setting = 'SLUICE_HEALTH_LISTEN';

it('serves health and metrics, and nothing else', async () => {
  await using server = await startHealthServer({
    listen,
    setting,
    registry: createRegistry(),
    check: () => Promise.resolve(),
  });
  const health = await fetch(`${server.url}/_health`);
  expect([health.status, await health.json()]).toEqual([200, { status: 'ok' }]);
  expect(await (await fetch(`${server.url}/_metrics`)).text()).toContain('process_cpu_seconds_total');
  expect((await fetch(`${server.url}/`)).status).toBe(404);
  expect((await fetch(`${server.url}/_health`, { method: 'POST' })).status).toBe(405);
});

it('answers 503 without the reason when the check fails or does not answer', async () => {
  const reasons: unknown[] = [];
  const checks = [
    () => Promise.reject(new Error('password of user x is wrong')),
    () => new Promise<void>(() => {}),
  ];
  await using server = await startHealthServer({
    listen,
    setting,
    registry: createRegistry(),
    timeoutMs: 20,
    check: () => checks.shift()!(),
    onUnhealthy: (error) => reasons.push(error),
  });
  for (const expected of ['password of user x is wrong', 'no answer within 20 ms']) {
    const response = await fetch(`${server.url}/_health`);
    expect([response.status, await response.text()]).toEqual([503, '{"status":"unavailable"}']);
    expect(reasons.pop()).toMatchObject({ message: expected });
  }
});

it('names the setting and what to do where it cannot listen', async () => {
  await using server = await startHealthServer({
    listen,
    setting,
    registry: createRegistry(),
    check: () => Promise.resolve(),
  });
  const start = (host: string, port: number) =>
    startHealthServer({
      listen: { host, port },
      setting,
      registry: createRegistry(),
      check: () => Promise.resolve(),
    });
  const port = Number(new URL(server.url).port);
  await expect(start('127.0.0.1', port)).rejects.toThrow(
    `SLUICE_HEALTH_LISTEN: expected a free port, got 127.0.0.1:${port}, where another process listens. Stop it`,
  );
  // Of documentation alone (RFC 3849): no machine has it.
  await expect(start('2001:db8::1', port)).rejects.toThrow(
    `SLUICE_HEALTH_LISTEN: expected an address of this machine, got [2001:db8::1]:${port}`,
  );
});
