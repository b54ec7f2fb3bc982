import type { IncomingMessage } from 'node:http';
import { PassThrough } from 'node:stream';
import { gzipSync } from 'node:zlib';
import { expect, onTestFinished, test } from 'vitest';
import { readBody, readWholeBody } from './read-body.ts';

const LIMITS = { bytesMax: 1000, idleMs: 60_000, totalMs: 60_000 };

/** A request whose body is still to be written. */
function makeRequest(): { stream: PassThrough; request: IncomingMessage } {
  const stream = Object.assign(new PassThrough(), { complete: true });
  return { stream, request: stream as unknown as IncomingMessage };
}

async function readAll(request: IncomingMessage, limits: Partial<typeof LIMITS> = {}): Promise<string> {
  let text = '';
  for await (const chunk of readBody(request, { ...LIMITS, ...limits })) text += chunk.toString();
  return text;
}

test('a whole body is read, and one that is too long is refused', async () => {
  const good = makeRequest();
  good.stream.end('hello');
  expect(await readAll(good.request)).toBe('hello');
  const long = makeRequest();
  long.stream.end('hello');
  await expect(readAll(long.request, { bytesMax: 4 })).rejects.toMatchObject({ status: 413 });
});

test('a client that falls silent is refused, and so is one that sends a byte now and then without end', async () => {
  await expect(readAll(makeRequest().request, { idleMs: 20 })).rejects.toMatchObject({ status: 408 });
  const { stream, request } = makeRequest();
  const trickle = setInterval(() => stream.write('x'), 2);
  onTestFinished(() => clearInterval(trickle));
  await expect(readAll(request, { totalMs: 20, bytesMax: 1e9 })).rejects.toThrow('within 20 ms');
});

test.each([
  ['as it is', (body: Buffer) => body, {}],
  ['in gzip', (body: Buffer) => gzipSync(body), { 'content-encoding': 'gzip' }],
])(
  'a body of more than 64 KiB %s asks for leave once before it is read on, and a shorter one does not',
  async (_, encode, headers) => {
    const read = (bytes: number, beforeMore: () => Promise<void>): Promise<Buffer> => {
      const { stream, request } = makeRequest();
      Object.assign(request, { headers });
      stream.end(encode(Buffer.alloc(bytes, 'x')));
      return readWholeBody(request, { ...LIMITS, bytesMax: 10_000_000, beforeMore });
    };
    expect(await read(64 * 1024, () => Promise.reject(new Error('not to be asked')))).toHaveLength(64 * 1024);
    const leave = Promise.withResolvers<void>();
    const asked = Promise.withResolvers<void>();
    let questions = 0;
    let isRead = false;
    const reading = read(5_000_000, () => {
      questions += 1;
      asked.resolve();
      return leave.promise;
    }).finally(() => {
      isRead = true;
    });
    await asked.promise;
    expect(isRead).toBe(false);
    leave.resolve();
    expect(await reading).toHaveLength(5_000_000);
    expect(questions).toBe(1);
    await expect(read(5_000_000, () => Promise.reject(new Error('no room')))).rejects.toThrow();
  },
);
