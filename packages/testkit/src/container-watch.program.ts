import { once } from 'node:events';
import { request } from 'node:http';
import { engineAddress } from './container-engine.ts';

/** Started by removeContainerWithUs: waits for the end of its standard input, then removes the container. */
const [engine, name] = process.argv.slice(2);
await once(process.stdin.resume(), 'end');
const path = `/containers/${name!}?force=true&v=true`;
// Not found is the usual answer: the run has stopped its container itself.
const removal = request({ ...engineAddress(engine!), method: 'DELETE', path, timeout: 30_000 }, (response) =>
  response.resume(),
);
removal.on('timeout', () => removal.destroy());
removal.on('error', () => {});
removal.end();
