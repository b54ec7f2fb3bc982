import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { CONTENDERS, type ContenderName } from './contender.ts';

/** The libraries of each contender, as they show in the path of a module. */
const LIBRARIES: Record<ContenderName, RegExp> = {
  sluice: /\/packages\/(db|queue-core|dispatch)\//,
  'graphile-worker': /\/node_modules\/graphile-worker\//,
  'pg-boss': /\/node_modules\/pg-boss\//,
  document: /\/contenders\/document\.ts$/,
};

/** Loads what the process of a task of this contender loads, and prints the URL of every module. */
const PROGRAM = `
  import { registerHooks } from 'node:module';
  const [suites, contenders, name] = process.argv.slice(1);
  registerHooks({ load: (url, context, next) => (console.log(url), next(url, context)) });
  await import(suites);
  await (await import(contenders)).contenderNamed(name);`;

test.each(CONTENDERS)('the process of %s carries the libraries of no other', async (name) => {
  const urls = ['../suites/suites.ts', './contenders.ts'].map((path) => new URL(path, import.meta.url).href);
  const args = ['--input-type=module', '--eval', PROGRAM, ...urls, name];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  const modules = stdout.split('\n');
  for (const [other, library] of Object.entries(LIBRARIES)) {
    const loaded = modules.filter((url) => library.test(url));
    if (other === name) expect(loaded).not.toEqual([]);
    else expect(loaded).toEqual([]);
  }
});
