import { enableCompileCache } from 'node:module';
import { join } from 'node:path';

const stop = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort());
// A reader such as head that has seen enough is no error.
process.stdout.on('error', () => process.exit(0));

// Nearly half of the second that a short command takes would go into compiling the program. No cache is no error.
enableCompileCache(join(import.meta.dirname, '../../../node_modules/.cache/sluice'));
const { run } = await import('./run.ts');

process.exitCode = await run(process.argv.slice(2), {
  cwd: process.cwd(),
  env: process.env,
  stdout: process.stdout,
  stderr: process.stderr,
  signal: stop.signal,
});
