import { spawn } from 'node:child_process';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * Serves a folder of bare repositories by `git http-backend`, as a web server with CGI does: one process per request,
 * started directly, and bytes handed on as they come. The program's arguments are the folder and the path of
 * `git-http-backend`; configuration comes by git's own variables. Prints its URL, and ends with its parent.
 */
const [root = '', backend = ''] = process.argv.slice(2);
process.on('disconnect', () => process.exit(0));

const server = createServer({ keepAliveTimeout: 65_000 }, serve);
server.listen(0, '127.0.0.1', () => {
  process.send?.(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});

function serve(request: IncomingMessage, response: ServerResponse): void {
  const child = spawn(backend, { env: environment(request), stdio: ['pipe', 'pipe', 'inherit'] });
  child.on('error', (error) => response.destroy(error));
  child.stdin.on('error', () => {});
  request.pipe(child.stdin);
  let head: Buffer = Buffer.alloc(0);
  const onHead = (chunk: Buffer): void => {
    head = Buffer.concat([head, chunk]);
    const end = head.indexOf('\r\n\r\n');
    if (end === -1) return;
    child.stdout.off('data', onHead);
    response.writeHead(...parseHead(head.toString('latin1', 0, end)));
    response.write(head.subarray(end + 4));
    child.stdout.pipe(response);
  };
  child.stdout.on('data', onHead);
  child.stdout.on('end', () => {
    if (!response.headersSent) response.writeHead(500).end();
  });
}

function environment({ method = '', url = '', headers }: IncomingMessage): NodeJS.ProcessEnv {
  const [path = '', query = ''] = url.split('?');
  const optional = {
    CONTENT_TYPE: headers['content-type'],
    CONTENT_LENGTH: headers['content-length'],
    HTTP_CONTENT_ENCODING: headers['content-encoding'],
    GIT_PROTOCOL: headers['git-protocol'] as string | undefined,
  };
  return {
    ...process.env,
    ...Object.fromEntries(Object.entries(optional).filter(([, value]) => value !== undefined)),
    GATEWAY_INTERFACE: 'CGI/1.1',
    SERVER_PROTOCOL: 'HTTP/1.1',
    REMOTE_ADDR: '127.0.0.1',
    REQUEST_METHOD: method,
    QUERY_STRING: query,
    PATH_INFO: path,
    GIT_PROJECT_ROOT: root,
    GIT_HTTP_EXPORT_ALL: '1',
  };
}

function parseHead(text: string): [status: number, headers: Record<string, string>] {
  const lines = text.split('\r\n').map((line): [string, string] => {
    const colon = line.indexOf(':');
    return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
  });
  const { status = '200', ...headers } = Object.fromEntries(lines);
  return [Number.parseInt(status, 10), headers];
}
