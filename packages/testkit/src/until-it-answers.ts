import { setTimeout as sleep } from 'node:timers/promises';
import { onServer } from './on-server.ts';

const PAUSE_MS = 100;

/**
 * Waits until a server answers a query, and returns its version; the last error when the bound passes. Nothing less
 * proves it: the container image starts its server twice, so a port may be open, a line logged, and yet the next
 * connection reset.
 */
export async function untilItAnswers(url: string, withinMs: number): Promise<string> {
  const end = performance.now() + withinMs;
  for (;;) {
    try {
      return await serverVersion(url);
    } catch (error) {
      if (performance.now() > end) throw error;
      await sleep(PAUSE_MS);
    }
  }
}

export async function serverVersion(url: string): Promise<string> {
  return await onServer(url, async (client) => {
    const { rows } = await client.query<{ server_version: string }>('show server_version');
    return rows[0]!.server_version;
  });
}
