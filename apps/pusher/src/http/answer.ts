import type { IncomingMessage, ServerResponse } from 'node:http';
import { HttpError } from '../http-error.ts';

/** Headers of every answer that depends on the state of a repository. */
export const NO_CACHE = {
  'cache-control': 'no-cache, max-age=0, must-revalidate',
  'x-content-type-options': 'nosniff',
} as const;

/** Answers with bytes of the given type. */
export function answer(response: ServerResponse, status: number, type: string, body: Buffer | string): void {
  response.writeHead(status, {
    ...NO_CACHE,
    'content-type': type,
    'content-length': Buffer.byteLength(body),
  });
  endAnswer(response, body);
}

/** More is worth a packet of its own. */
const JOINED_BYTES_MAX = 64 * 1024;

/** Answers with parts as they are: a million refs are in memory once, however many take them, and however slowly. */
export function answerInParts(response: ServerResponse, type: string, parts: readonly Buffer[]): void {
  const bytes = parts.reduce((sum, { length }) => sum + length, 0);
  if (bytes <= JOINED_BYTES_MAX) return answer(response, 200, type, Buffer.concat(parts));
  response.writeHead(200, { ...NO_CACHE, 'content-type': type, 'content-length': bytes });
  for (const part of parts) response.write(part);
  endAnswer(response);
}

/** A client that takes nothing for this long is let go, and what it did not take with it. */
const UNTAKEN_MS_MAX = 60_000;

/** Ends an answer. Once it is taken, the server's own limit on idle connections holds again. */
export function endAnswer(response: ServerResponse, body?: Buffer | string): void {
  response.setTimeout(UNTAKEN_MS_MAX);
  response.end(body);
}

/** Most bytes of a request's body that are still read once it is answered, so that its sender gets to hear why. */
const UNREAD_BYTES_MAX = 4 * 1024 * 1024;
/** And the longest that it may take: who is refused may not even have said who it is. */
const UNREAD_MS_MAX = 30_000;
/** How long who sends more than that has for reading the answer, before it is cut off. */
const CUT_OFF_MS = 1_000;

/** Answers with a sentence, which git shows to its user. Does nothing if an answer has begun; then the connection ends. */
export function answerError(request: IncomingMessage, response: ServerResponse, error: HttpError): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const body = `${error.message}\n`;
  response.writeHead(error.status, {
    ...NO_CACHE,
    ...error.headers,
    'content-type': 'text/plain; charset=utf-8',
    'content-length': Buffer.byteLength(body),
  });
  endAnswer(response, body);
  dropRest(request);
}

/** Whether the rest of a request may be longer than what is still read of it once it is answered. */
export function mayBeCutOff(request: IncomingMessage): boolean {
  const length = Number(request.headers['content-length'] ?? Number.POSITIVE_INFINITY);
  return !request.complete && length > UNREAD_BYTES_MAX;
}

/**
 * Reads on behind an answer, within bounds: a client whose connection ends while it is still sending may lose the
 * answer. Who sends more than that is cut off.
 */
export function dropRest(request: IncomingMessage): void {
  if (request.complete || request.destroyed) return;
  let timer = setTimeout(() => request.destroy(), UNREAD_MS_MAX);
  request.once('close', () => clearTimeout(timer));
  let unread = 0;
  request.on('data', (chunk: Buffer) => {
    unread += chunk.length;
    if (unread <= UNREAD_BYTES_MAX) return;
    // The end of a connection that has unread bytes takes the answer with it, where the client has not read it yet.
    request.pause();
    clearTimeout(timer);
    timer = setTimeout(() => request.destroy(), CUT_OFF_MS);
  });
  request.on('error', () => {});
}

/** Refuses a request whose body is not of the type that the service speaks. */
export function requireContentType(request: IncomingMessage, type: string): void {
  const got = request.headers['content-type'];
  if (got !== type)
    throw new HttpError(415, `expected content-type ${type}, got ${got === undefined ? 'none' : 'another'}`);
}

/** Refuses a request of which a proxy in front might have thought that it ends elsewhere. Node refuses all others. */
export function requireFraming(request: IncomingMessage): void {
  const got = request.headers['transfer-encoding'] ?? 'chunked';
  if (got.toLowerCase() !== 'chunked')
    throw new HttpError(400, 'expected transfer-encoding chunked or none, got another');
}

/** Refuses a request of which a proxy in front might have read another Host. Node takes the first. */
export function requireOneHost(request: IncomingMessage): void {
  const got = request.headersDistinct['host']?.length ?? 0;
  if (got > 1) throw new HttpError(400, `expected one Host header, got ${got}`);
}

/** Refuses a request whose body is encoded in a way that the service does not take. */
export function requireEncoding(request: IncomingMessage, ...encodings: readonly string[]): void {
  const got = request.headers['content-encoding'] ?? 'identity';
  if (!encodings.includes(got))
    throw new HttpError(415, `expected content-encoding ${encodings.join(' or ')}, got another`);
}
