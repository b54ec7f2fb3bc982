import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { gitEnvironment } from '../git/git-environment.ts';
import { readGit } from '../git/read-git.ts';
import { uploadPackConfiguration } from '../git/serve-configuration.ts';
import { encodePkt, FLUSH } from '../wire/pkt-line.ts';
import { advertisePush, noSuchRepository } from './advertise-push.ts';
import { answerInParts } from './answer.ts';
import type { Pusher } from './pusher.ts';
import { ClientGone } from './read-body.ts';
import type { RepoAddress, Service } from './route.ts';

/** Answers `info/refs`: the refs as they are in the database now, and what the service can do. */
export async function advertise(
  pusher: Pusher,
  { service, address, protocol }: { service: Service; address: RepoAddress; protocol: string | undefined },
  response: ServerResponse,
): Promise<void> {
  // Pushing has no version 2: git falls back to version 0 by itself, and so do we.
  const isVersion2 = service === 'git-upload-pack' && protocol?.split(':').includes('version=2') === true;
  const refs =
    service === 'git-receive-pack'
      ? await advertisePush(pusher, address)
      : [await advertiseFetch(pusher, { address, protocol: isVersion2 ? 'version=2' : undefined }, response)];
  const banner = isVersion2 ? [] : [encodePkt(`# service=${service}\n`), FLUSH];
  answerInParts(response, `application/x-${service}-advertisement`, [...banner, ...refs]);
}

async function advertiseFetch(
  pusher: Pusher,
  { address, protocol }: { address: RepoAddress; protocol: string | undefined },
  response: ServerResponse,
): Promise<Buffer> {
  const release = await pusher.slots.reads.take(address.repoId);
  try {
    // It may have left while it waited in line.
    if (response.destroyed) throw new ClientGone(undefined);
    // Version 2 lists refs when it is asked to. What is wrong with them is said here, where git shows the sentence.
    const view = protocol === undefined ? 'all' : 'no-results';
    const repo = await pusher.refs.refresh(address.repoId, view);
    if (repo === undefined) throw noSuchRepository(address);
    const { folder, gitDir } = repo;
    return await readGit({
      args: ['upload-pack', '--http-backend-info-refs', gitDir],
      env: gitEnvironment({
        home: pusher.home,
        config: uploadPackConfiguration(gitDir),
        objects: join(folder, 'objects'),
        ...(protocol === undefined ? {} : { protocol }),
      }),
      timeoutMs: ADVERTISE_MS,
      bytesMax: ADVERTISE_BYTES_MAX,
      memoryBytesMax: pusher.settings.gitMemoryBytesMax,
    });
  } finally {
    release();
  }
}

const ADVERTISE_MS = 60_000;
/** About a million refs with long names. */
const ADVERTISE_BYTES_MAX = 512 * 1024 * 1024;
