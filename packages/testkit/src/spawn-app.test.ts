import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { spawnApp, type SpawnedApp } from './spawn-app.ts';
import { useTempFolder } from './temp-folder.ts';

const folder = useTempFolder();

function app(source: string): SpawnedApp {
  const file = join(folder.path, 'main.ts');
  writeFileSync(file, source);
  return spawnApp({ file, env: { GREETING: 'hello' } });
}

test('output, signal and end of a program', async () => {
  await using child = app(`
    process.on('SIGTERM', () => { console.error('bye'); process.exit(7); });
    console.log(process.env['GREETING'], process.env['VITEST'] ?? 'clean');
    setInterval(() => {}, 60_000);`);
  expect((await child.waitForOutput(/hello (\w+)/))[1]).toBe('clean');
  child.signal('SIGTERM');
  expect(await child.exited()).toEqual({ code: 7, signal: null });
  expect(child.output()).toContain('bye');
  expect(child.stdout()).not.toContain('bye');
});

test('a program that ends too early fails the wait with what it said', async () => {
  await using child = app(`console.error('no database'); process.exit(1);`);
  await expect(child.waitForOutput(/ready/)).rejects.toThrow(/ended before \/ready\/:\nno database/);
});

test('disposing ends its children as well', async () => {
  const child = app(`
    const { spawn } = await import('node:child_process');
    console.log('child ' + spawn('sleep', ['600'], { stdio: 'ignore' }).pid);
    setInterval(() => {}, 60_000);`);
  const grandchild = Number((await child.waitForOutput(/child (\d+)/))[1]);
  await child[Symbol.asyncDispose]();
  await expect.poll(() => isRunning(grandchild), { timeout: 20_000 }).toBe(false);
});

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !isZombie(pid);
  } catch {
    return false;
  }
}

function isZombie(pid: number): boolean {
  return process.platform === 'linux' && readFileSync(`/proc/${pid}/cmdline`, 'utf8') === '';
}
