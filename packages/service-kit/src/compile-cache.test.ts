import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempDisposableSync, readdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';

/** A project with a program that says so when it is loaded, and is killed a moment later. */
function makeProject(root: string): string {
  const source = join(root, 'packages/service-kit/src');
  mkdirSync(source, { recursive: true });
  cpSync(join(import.meta.dirname, 'compile-cache.ts'), join(source, 'compile-cache.ts'));
  writeFileSync(join(source, 'program.ts'), `process.stdout.write('loaded' as string);\n`);
  const main = join(source, 'main.ts');
  writeFileSync(
    main,
    `import { withCompileCache } from './compile-cache.ts';
await withCompileCache(() => import('./program.ts'));
process.kill(process.pid, 'SIGKILL');\n`,
  );
  return main;
}

function run(main: string): string {
  // A cache that is chosen from outside goes before.
  const env = { ...process.env, NODE_COMPILE_CACHE: undefined };
  const { stdout, stderr } = spawnSync(process.execPath, [main], { env, encoding: 'utf8', timeout: 20_000 });
  return stdout + stderr;
}

test('what is compiled is there for the next start, also after a kill', () => {
  using root = mkdtempDisposableSync(join(tmpdir(), 'sluice-test-'));
  expect(run(makeProject(root.path))).toBe('loaded');
  const cache = join(root.path, 'node_modules/.cache/sluice');
  expect(existsSync(cache) && readdirSync(cache, { recursive: true }).length).toBeGreaterThan(1);
});

test('where nothing can be written, the program starts all the same', () => {
  using root = mkdtempDisposableSync(join(tmpdir(), 'sluice-test-'));
  const main = makeProject(root.path);
  writeFileSync(join(root.path, 'node_modules'), 'no folder');
  expect(run(main)).toBe('loaded');
});
