import { spawn } from 'node:child_process';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buildWorkOrder, parseDefinition, type WorkOrder } from '@sluice/effect-spec';
import { runGit } from '@sluice/executors';

/** One bare repository behind git's own HTTP server, with the pusher's URLs and some of its faults. */
export interface FakePusher extends AsyncDisposable {
  readonly url: string;
  readonly gitDir: string;
  /** Paths of the requests so far. */
  readonly requests: string[];
  /** Answer the next requests with a status, or by dropping the connection. */
  readonly faults: (number | 'drop')[];
  /** Refuse every push of that ref with a reason. */
  refuse(ref: string, reason: string): Promise<void>;
  readonly git: (args: readonly string[], input?: string | Uint8Array) => Promise<string>;
  /** Commits files and returns a work order for running a command on them. */
  order(files: Readonly<Record<string, string>>, definition: string): Promise<WorkOrder>;
}

export interface FakePusherOptions {
  token?: string;
  objectFormat?: 'sha1' | 'sha256';
}

export const REPO = 'acme/api';

export async function startFakePusher({
  token,
  objectFormat = 'sha1',
}: FakePusherOptions = {}): Promise<FakePusher> {
  const root = await mkdtemp(join(tmpdir(), 'sluice-pusher-'));
  const gitDir = join(root, `${REPO}.git`);
  await runGit({ args: ['init', '--quiet', '--bare', `--object-format=${objectFormat}`, gitDir] });
  const git = async (args: readonly string[], input?: string | Uint8Array): Promise<string> =>
    (await runGit({ gitDir, args, ...(input === undefined ? {} : { input }) })).trim();
  await git(['config', 'http.receivepack', 'true']);

  const requests: string[] = [];
  const faults: (number | 'drop')[] = [];
  const server = createServer((request, response) => {
    requests.push(request.url ?? '');
    const fault = faults.shift();
    const password = Buffer.from(request.headers.authorization?.split(' ')[1] ?? '', 'base64')
      .toString()
      .split(':')[1];
    if (fault === 'drop') request.socket.destroy();
    else if (fault !== undefined) response.writeHead(fault).end();
    else if (token !== undefined && password !== token)
      response.writeHead(401, { 'www-authenticate': 'Basic' }).end();
    else serveGit(root, request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;

  return {
    url: `http://127.0.0.1:${port}`,
    gitDir,
    requests,
    faults,
    git,
    refuse: async (ref, reason) => {
      await git(['config', 'receive.procReceiveRefs', 'refs']);
      const packet = (text: string): string => `${(text.length + 4).toString(16).padStart(4, '0')}${text}`;
      const hook = join(gitDir, 'hooks', 'proc-receive');
      await writeFile(
        hook,
        `#!/bin/sh\nprintf '%s' '${packet('version=1\n')}0000${packet(`ng ${ref} ${reason}\n`)}0000'\ncat > /dev/null\n`,
      );
      await chmod(hook, 0o755);
    },
    order: async (files, definition) => {
      const lines = await Promise.all(
        Object.entries(files).map(
          async ([name, content]) =>
            `100644 blob ${await git(['hash-object', '-w', '--stdin'], content)}\t${name}\n`,
        ),
      );
      return orderFor(git, await git(['mktree'], lines.join('')), definition);
    },
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await rm(root, { recursive: true, force: true });
    },
  };
}

/** A work order for running a definition on a tree that the repository has. */
export async function orderFor(git: FakePusher['git'], tree: string, definition: string): Promise<WorkOrder> {
  const who = ['-c', 'user.name=a', '-c', 'user.email=a@example.org'];
  const commit = await git([...who, 'commit-tree', '-m', 'a commit', tree]);
  await git(['update-ref', `refs/heads/at-${commit}`, commit]);
  const parsed = parseDefinition(`on:\n  - refs/heads/*\n${definition}`);
  if ('problems' in parsed) throw new Error(JSON.stringify(parsed.problems));
  return buildWorkOrder(parsed.definition, {
    repo: REPO,
    push: { id: commit, signer: null },
    effect: { name: 'test', definition: commit },
    edit: { name: 'refs/heads/main', oldOid: null, newOid: commit },
    source: { commit, tree },
    hops: 0,
  });
}

function serveGit(root: string, request: IncomingMessage, response: ServerResponse): void {
  const url = new URL(request.url ?? '', 'http://localhost');
  const backend = spawn('git', ['-c', 'receive.autogc=false', 'http-backend'], {
    env: {
      PATH: process.env['PATH'],
      GIT_CONFIG_NOSYSTEM: '1',
      GIT_CONFIG_GLOBAL: '/dev/null',
      GIT_PROJECT_ROOT: root,
      GIT_HTTP_EXPORT_ALL: '1',
      PATH_INFO: url.pathname.replace(/^\/_claim\/\d+/, ''),
      QUERY_STRING: url.search.slice(1),
      REQUEST_METHOD: request.method,
      REMOTE_USER: 'test',
      CONTENT_TYPE: request.headers['content-type'] ?? '',
      HTTP_CONTENT_ENCODING: request.headers['content-encoding'] ?? '',
      GIT_PROTOCOL: String(request.headers['git-protocol'] ?? ''),
    },
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  backend.stdin.on('error', () => {});
  request.pipe(backend.stdin);
  const chunks: Buffer[] = [];
  backend.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
  backend.once('close', () => {
    const answer = Buffer.concat(chunks);
    const end = answer.indexOf('\r\n\r\n');
    const headers = answer
      .subarray(0, end)
      .toString()
      .split('\r\n')
      .map((line) => line.split(/: (.*)/s) as [string, string]);
    const status = Number(headers.find(([name]) => name === 'Status')?.[1].split(' ')[0] ?? 200);
    response.writeHead(status, Object.fromEntries(headers.filter(([name]) => name !== 'Status')));
    response.end(answer.subarray(end + 4));
  });
}
