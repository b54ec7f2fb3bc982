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
  if (response.writableFinished || socket.destroyed) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const deadline = setTimeout(() => socket.destroy(), totalMs);
  response.once('finish', resolve);
  // The connection and not the answer: one that waits behind another on the same connection is not told. There may be
  // as many of them as requests under way.
  socket.setMaxListeners(0);
  socket.once('close', resolve);
  await promise;
  clearTimeout(deadline);
  socket.off('close', resolve);
}
