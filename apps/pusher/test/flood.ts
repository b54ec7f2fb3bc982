import { connect } from 'node:net';

export interface Flood {
  /** Everything that came back before the connection ended. */
  answer: string;
  /** How much of it left this process before the connection ended. */
  bytesSent: number;
}

const CHUNK = Buffer.alloc(256 * 1024);

/** Sends a push that begins like one and goes on for `bytes`, without ever listening, until the server has enough. */
export async function floodPush(
  repositoryUrl: string,
  { opening, bytes, headers = {} }: { opening: Buffer; bytes: number; headers?: Record<string, string> },
): Promise<Flood> {
  const { hostname, port, pathname } = new URL(repositoryUrl);
  const socket = connect({ host: hostname, port: Number(port) });
  let answer = '';
  let isOpen = true;
  socket.on('error', () => {});
  socket.on('data', (part: Buffer) => (answer += part.toString('latin1')));
  const closed = new Promise<void>((resolve) =>
    socket.once('close', () => {
      isOpen = false;
      resolve();
    }),
  );
  const lines = Object.entries({
    host: hostname,
    'content-type': 'application/x-git-receive-pack-request',
    'transfer-encoding': 'chunked',
    ...headers,
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(`POST ${pathname}/git-receive-pack HTTP/1.1\r\n${lines.join('')}\r\n`);
  const send = (part: Buffer): boolean => {
    socket.write(`${part.length.toString(16)}\r\n`);
    socket.write(part);
    return socket.write('\r\n');
  };
  send(opening);
  for (let sent = 0; sent < bytes && isOpen; sent += CHUNK.length) {
    if (!send(CHUNK)) await Promise.race([new Promise((resolve) => socket.once('drain', resolve)), closed]);
  }
  socket.end();
  await closed;
  return { answer, bytesSent: socket.bytesWritten - socket.writableLength };
}
