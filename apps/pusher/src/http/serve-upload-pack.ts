import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { RESULT_PREFIX } from '@sluice/effect-spec';
import { gitEnvironment } from '../git/git-environment.ts';
import { uploadPackConfiguration } from '../git/serve-configuration.ts';
import { startGit, type GitProcess } from '../git/start-git.ts';
import { writeTo } from '../git/write-to.ts';
import { HttpError, unavailable } from '../http-error.ts';
import { mayListRefs } from '../wire/fetch-request.ts';
import { noSuchRepository } from './advertise-push.ts';
import { endAnswer, NO_CACHE, requireContentType, requireEncoding } from './answer.ts';
import { ClientPace, DOWNLOAD } from './client-pace.ts';
import { countRefusal } from './count-refusal.ts';
import type { Pusher } from './pusher.ts';
import { ClientGone, readWholeBody } from './read-body.ts';
import type { RepoAddress } from './route.ts';

/** A list of wants and haves; it grows with the refs on both sides, never with the size of the repository. */
const REQUEST_BYTES_MAX = 32 * 1024 * 1024;

/** What git says of a request that is none, before it answers. Anything else may be the server's own fault. */
const MALFORMED =
  /^(?:fatal|BUG): (?:git upload-pack: |serve\.c:\d+: )?((?:invalid command|command '.*' requested after|no command requested|mismatched object format|unexpected line|unknown capability|protocol error|the remote end hung up|unexpected response end packet).{0,200})/m;

/** Git has told the client as well, in the last packet of its answer. */
const NOT_OUR_REF = /^fatal: git upload-pack: not our ref [0-9a-f]+$/m;

interface Fetch {
  address: RepoAddress;
  account: string | null;
  protocol: string | undefined;
}

/** Answers one request of a fetch or clone. */
export async function serveUploadPack(
  pusher: Pusher,
  fetch: Fetch,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  requireContentType(request, 'application/x-git-upload-pack-request');
  requireEncoding(request, 'identity', 'gzip', 'x-gzip');
  const { idleMs, uploadMs } = pusher.settings;
  const { longRequests } = pusher.slots;
  let release: (() => void) | undefined;
  try {
    const body = await readWholeBody(request, {
      bytesMax: REQUEST_BYTES_MAX,
      idleMs,
      totalMs: uploadMs,
      isWanted: () => release !== undefined && longRequests.isWanted(fetch.address.repoId, fetch.account),
      beforeMore: async () => {
        release = await longRequests.take(fetch.address.repoId, fetch.account);
      },
    });
    await serve(pusher, { ...fetch, body }, response);
  } finally {
    release?.();
  }
}

async function serve(
  pusher: Pusher,
  { address, account, protocol, body }: Fetch & { body: Buffer },
  response: ServerResponse,
): Promise<void> {
  const { idleMs, uploadMs, gitMemoryBytesMax } = pusher.settings;
  const { reads } = pusher.slots;
  const release = await reads.take(address.repoId, account);
  try {
    // It may have left while it waited in line.
    if (response.destroyed) throw new ClientGone(undefined);
    // In version 2 refs are listed here and not in the advertisement, so this must be fresh too.
    const view = mayListRefs(body, RESULT_PREFIX) ? 'all' : 'no-results';
    const repo = await pusher.refs.refresh(address.repoId, view);
    if (repo === undefined) throw noSuchRepository(address);
    const git = await startGit({
      args: ['upload-pack', '--stateless-rpc', repo.gitDir],
      env: gitEnvironment({
        home: pusher.home,
        config: uploadPackConfiguration(repo.gitDir),
        objects: join(repo.folder, 'objects'),
        ...(protocol === undefined ? {} : { protocol }),
      }),
      memoryBytesMax: gitMemoryBytesMax,
    });
    const end = await copyAnswer(git, {
      body,
      response,
      idleMs,
      totalMs: uploadMs,
      isWanted: () => reads.isWanted(address.repoId, account),
      onTooSlow: () => countRefusal(pusher.metrics, 408),
    });
    if (end === 'told' || end === 'broken' || end === 'unanswered') {
      const errors = git.errors();
      const malformed = end === 'unanswered' ? MALFORMED.exec(errors)?.[1] : undefined;
      const isReaders = end === 'told' || malformed !== undefined;
      pusher.log[isReaders ? 'info' : 'warn']({
        event: isReaders ? 'fetch_refused' : 'upload_pack_failed',
        repo_id: address.repoId,
        errors,
      });
      if (malformed !== undefined)
        throw new HttpError(400, `expected a request of a fetch, got: ${malformed}`);
      // Of an object that was lost git says as well that it is not ours.
      await pusher.guard.suspect(address.repoId, repo.folder);
      if (end === 'unanswered') {
        await pusher.guard.require(address.repoId, repo.folder);
        throw unavailable('git could not serve the request', new Error(errors));
      }
    }
  } finally {
    release();
  }
}

interface AnswerLimits {
  /** Longest time in which the client takes nothing. */
  idleMs: number;
  totalMs: number;
  /** Whether others wait for the slot: then a client that takes next to nothing is let go sooner. */
  isWanted: () => boolean;
  /** Told of a client that is let go. */
  onTooSlow: () => void;
}

/** Says whether the answer ended with git's refusal, broke off by git's fault, or did not even begin. */
async function copyAnswer(
  git: GitProcess,
  { body, response, ...limits }: AnswerLimits & { body: Buffer; response: ServerResponse },
): Promise<'whole' | 'left' | 'told' | 'broken' | 'unanswered'> {
  const letGo = (): void => {
    if (response.destroyed) return;
    limits.onTooSlow();
    response.destroy();
  };
  const deadline = setTimeout(letGo, limits.totalMs);
  const pace = new ClientPace(DOWNLOAD, { isWanted: limits.isWanted, onTooSlow: letGo });
  const onClose = (): void => git.end('SIGTERM');
  response.on('close', onClose);
  // Left before anybody listened: that event does not come again, and git would hold its slot for ever.
  if (response.destroyed) onClose();
  try {
    git.stdin.end(body);
    for await (const chunk of git.stdout as AsyncIterable<Buffer>) {
      if (response.destroyed) continue;
      if (!response.headersSent) {
        response.writeHead(200, { ...NO_CACHE, 'content-type': 'application/x-git-upload-pack-result' });
      }
      const idle = setTimeout(letGo, limits.idleMs);
      pace.wait();
      await writeTo(response, chunk);
      pace.count(chunk.length);
      clearTimeout(idle);
    }
    const code = await git.exited;
    if (response.destroyed) return 'left';
    if (code === 0) {
      endAnswer(response);
      return 'whole';
    }
    if (!response.headersSent) return 'unanswered';
    if (NOT_OUR_REF.test(git.errors())) {
      endAnswer(response);
      return 'told';
    }
    // An answer that breaks off must look like it.
    response.destroy();
    return 'broken';
  } finally {
    clearTimeout(deadline);
    pace.end();
    response.off('close', onClose);
    git.end('SIGKILL');
  }
}
