import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const WATCH = fileURLToPath(new URL('./container-watch.program.ts', import.meta.url));

/**
 * Removes the container of that name when this process has ended, in whatever way: a Ctrl-C or a kill runs no teardown,
 * and the helper container that would clean up afterwards may be switched off. A session of its own keeps the watch
 * alive through the Ctrl-C; the pipe to it closes with this process.
 */
export function removeContainerWithUs(engine: string, name: string): void {
  const watch = spawn(process.execPath, [WATCH, engine, name], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  watch.on('error', () => {});
  watch.unref();
  (watch.stdin as unknown as { unref?: () => void }).unref?.();
}
