import { request } from 'node:http';
import { decodePkt, encodePkt, FLUSH } from '../src/wire/pkt-line.ts';

const ZERO = '0'.repeat(40);

/** A pack without objects, for refs whose objects are there already. */
export const EMPTY_PACK = Buffer.from(
  '5041434b0000000200000000029d08823bd8a8eab510ad6ac75c823cfd3ed31e',
  'hex',
);

export interface RawCommand {
  old?: string;
  new?: string;
  name: string | Buffer;
}

/** What a client sends ahead of its pack; whatever it is given, it sends. */
export function preamble(
  commands: readonly RawCommand[],
  capabilities = 'report-status side-band-64k',
): Buffer {
  const lines = commands.map((command, index) =>
    encodePkt(
      Buffer.concat([
        Buffer.from(`${command.old ?? ZERO} ${command.new ?? ZERO} `),
        Buffer.from(command.name as string),
        Buffer.from(index === 0 ? `\0${capabilities}` : ''),
      ]),
    ),
  );
  return Buffer.concat([...lines, FLUSH]);
}

export interface RawAnswer {
  status: number;
  headers: Record<string, unknown>;
  text: string;
}

/** Sends one request with exactly these bytes and headers. */
export async function send(
  url: string,
  options: { method?: string; body?: Buffer; headers?: Record<string, string>; path?: string } = {},
): Promise<RawAnswer> {
  const { hostname, port, pathname, search } = new URL(url);
  return await new Promise((resolve, reject) => {
    const sent = request(
      {
        hostname,
        port,
        path: options.path ?? pathname + search,
        method: options.method ?? (options.body === undefined ? 'GET' : 'POST'),
        headers: options.headers ?? {},
        agent: false,
      },
      (response) => {
        const parts: Buffer[] = [];
        response.on('data', (part: Buffer) => parts.push(part));
        response.on('error', reject);
        response.on('end', () =>
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            text: Buffer.concat(parts).toString('latin1'),
          }),
        );
      },
    );
    sent.on('error', reject);
    sent.end(options.body);
  });
}

/** Sends a push as raw bytes. */
export async function sendPush(
  repositoryUrl: string,
  body: Buffer,
  headers: Record<string, string> = {},
): Promise<RawAnswer> {
  return await send(`${repositoryUrl}/git-receive-pack`, {
    body,
    headers: { 'content-type': 'application/x-git-receive-pack-request', ...headers },
  });
}

/** The report in an answer with side-band, put together again. */
export function reportOf({ text }: RawAnswer): string {
  const bytes = Buffer.from(text, 'latin1');
  let report = '';
  for (let at = 0; ;) {
    const found = decodePkt(bytes, at);
    if (found === null || found.packet === null) return report;
    if (found.packet[0] === 1) report += found.packet.toString('latin1', 1);
    at = found.next;
  }
}
