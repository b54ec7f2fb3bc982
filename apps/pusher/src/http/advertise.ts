import { join } from 'node:path';
import type { ServerResponse } from 'node:http';
import { gitEnvironment, type ConfigEntry } from '../git/git-environment.ts';
import {
  claimAdvertisementConfiguration,
  receivePackConfiguration,
  uploadPackConfiguration,
} from '../git/serve-configuration.ts';
import { readGit } from '../git/read-git.ts';
import { ensureRepoFolder } from '../git/repo-folder.ts';
import type { Pusher } from '../pusher.ts';
import { readClaimRef } from '../push/claim-ref.ts';
import { hasMembers } from '../push/read-governing-refs.ts';
import { encodePkt, FLUSH } from '../wire/pkt-line.ts';
import { answer } from './answer.ts';
import { HttpError } from './http-error.ts';
import { ClientGone } from './read-body.ts';
import type { RepoAddress, Service } from './route.ts';

interface Subject {
  folder: string;
  config: ConfigEntry[];
}

/** Answers `info/refs`: the refs as they are in the database now, and what the service can do. */
export async function advertise(
  pusher: Pusher,
  { service, address, protocol }: { service: Service; address: RepoAddress; protocol: string | undefined },
  response: ServerResponse,
): Promise<void> {
  const slots = address.claimNumber === undefined ? pusher.slots.reads : pusher.slots.results;
  const release = await slots.take(address.repoId);
  try {
    // It may have left while it waited in line.
    if (response.destroyed) throw new ClientGone(undefined);
    const subject =
      service === 'git-upload-pack' ? await toFetch(pusher, address) : await toPush(pusher, address);
    // Pushing has no version 2: git falls back to version 0 by itself, and so do we.
    const isVersion2 = service === 'git-upload-pack' && protocol?.split(':').includes('version=2') === true;
    const refs = await runAdvertisement(pusher, service, subject, isVersion2 ? 'version=2' : undefined);
    const banner = isVersion2 ? [] : [encodePkt(`# service=${service}\n`), FLUSH];
    answer(response, 200, `application/x-${service}-advertisement`, Buffer.concat([...banner, refs]));
  } finally {
    release();
  }
}

async function toFetch(pusher: Pusher, address: RepoAddress): Promise<Subject> {
  const repo = address.claimNumber === undefined ? await pusher.refs.refresh(address.repoId) : undefined;
  if (repo === undefined) throw noSuchRepository(address);
  return { folder: repo.folder, config: uploadPackConfiguration(repo.folder) };
}

async function toPush(pusher: Pusher, address: RepoAddress): Promise<Subject> {
  const { settings, hooksFolder } = pusher;
  const { repoId, claimNumber } = address;
  const claimRef = claimNumber === undefined ? null : await readClaimRef(pusher.db, { repoId, claimNumber });
  if (claimRef === null && claimNumber !== undefined) throw claimIsGone(claimNumber);
  const repo = await pusher.refs.refresh(repoId);
  if (repo !== undefined && address.isSha256 === true && repo.state.objectFormat !== 'sha256') {
    throw new HttpError(409, `${repoId} exists already, as a sha1 repository`);
  }
  const folder = repo?.folder ?? (await emptyRepository(pusher, address));
  if (claimRef !== null) return { folder, config: claimAdvertisementConfiguration(folder, claimRef) };
  const { pushBytesMax } = settings;
  const nonceSeed = repo !== undefined && (await hasMembers(pusher.db, repoId)) ? pusher.nonceSeed : null;
  return {
    folder,
    config: receivePackConfiguration({ folder, hooksFolder, pushBytesMax, claimRef, nonceSeed }),
  };
}

/**
 * What a repository that does not exist yet shows to its first push. A client learns the hash from the advertisement,
 * before it says anything about itself, so the URL has to: `/_sha256/<name>.git`, or else the server's setting.
 */
async function emptyRepository(pusher: Pusher, address: RepoAddress): Promise<string> {
  const objectFormat = address.isSha256 === true ? 'sha256' : pusher.settings.objectFormat;
  const folder = join(pusher.settings.dataDir, 'empty', `${objectFormat}.git`);
  await ensureRepoFolder(folder, 'what a new repository looks like', objectFormat);
  return folder;
}

async function runAdvertisement(
  pusher: Pusher,
  service: Service,
  { folder, config }: Subject,
  protocol: string | undefined,
): Promise<Buffer> {
  return await readGit({
    args: [service.slice('git-'.length), '--http-backend-info-refs', folder],
    env: gitEnvironment({ home: pusher.home, config, ...(protocol === undefined ? {} : { protocol }) }),
    timeoutMs: ADVERTISE_MS,
    bytesMax: ADVERTISE_BYTES_MAX,
  });
}

const ADVERTISE_MS = 60_000;
/** About a million refs with long names. */
const ADVERTISE_BYTES_MAX = 512 * 1024 * 1024;

/** For a repository that only a push could make. */
export function noSuchRepository({ repoId }: RepoAddress): HttpError {
  return new HttpError(404, `no such repository: ${repoId}. A first push creates it`);
}

/** For a result push whose claim is no longer open. */
export function claimIsGone(claimNumber: bigint): HttpError {
  return new HttpError(404, `claim ${claimNumber} is gone: it was completed, requeued or never made`);
}
