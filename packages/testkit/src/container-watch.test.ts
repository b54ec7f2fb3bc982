import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { useTempFolder } from './temp-folder.ts';

const folder = useTempFolder();

test('a container goes with the run that was killed', async () => {
  const path = join(folder.path, 'engine.sock');
  const engine = createServer((_, response) => response.writeHead(204).end());
  await once(engine.listen(path), 'listening');
  const script = `
    const { removeContainerWithUs } = await import(${JSON.stringify(import.meta.resolve('./container-watch.ts'))});
    removeContainerWithUs('unix://${path}', 'sluice-test-1');
    process.stdout.write('watched');
    setInterval(() => {}, 1_000);
  `;
  const run = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(run.stdout, 'data');
  const asked = once(engine, 'request');
  run.kill('SIGKILL');
  const [request] = (await asked) as [IncomingMessage];
  expect(`${request.method!} ${request.url!}`).toBe('DELETE /containers/sluice-test-1?force=true&v=true');
  engine.closeAllConnections();
  engine.close();
});
