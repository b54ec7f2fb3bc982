import type { IncomingMessage, ServerResponse } from 'node:http';

/**
 * Resolves once an answer that was ended is taken, or its connection is gone. A client that takes longer than
 * `totalMs` is let go: to take a byte now and then is no silence.
 */
export async function untilTaken(
  { socket }: IncomingMessage,
  response: ServerResponse,
  totalMs: number,
): Promise<void> {
  if (response.closed) return;
  // The connection: an answer that waits behind another one has none yet that it could end.
  const deadline = setTimeout(() => socket.destroy(), totalMs);
  await new Promise((resolve) => response.once('close', resolve));
  clearTimeout(deadline);
}
