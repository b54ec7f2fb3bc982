import { readRef, readRepo, repoFolder, type ObjectFormat } from '@sluice/ref-store';
import { makeNonce } from '../git/certificate-nonce.ts';
import { linesOf } from '../git/packed-refs.ts';
import { ensureRepoFolder } from '../git/repo-folder.ts';
import { HttpError } from '../http-error.ts';
import { readClaimRef } from '../push/claim-ref.ts';
import { encodePushAdvertisement } from '../wire/push-advertisement.ts';
import type { Pusher } from './pusher.ts';
import type { RepoAddress } from './route.ts';

const NOTHING = Buffer.alloc(0);

/**
 * What a push is shown first: every ref but results, as the database has them now, and what the server can do. Without a
 * git process, and at a price that does not depend on how many refs there are, as long as they stay the same.
 */
export async function advertisePush(pusher: Pusher, address: RepoAddress): Promise<Buffer[]> {
  const { repoId, claimNumber } = address;
  if (claimNumber !== undefined) return await advertiseClaim(pusher, { repoId, claimNumber });
  const found = await pusher.refs.mirror.read(repoId);
  // A client learns the hash of a new repository here, before it says anything about itself, so the URL has to tell:
  // `/_sha256/<name>.git`, or else the server's setting.
  const objectFormat =
    found?.state.objectFormat ?? (address.isSha256 === true ? 'sha256' : pusher.settings.objectFormat);
  if (address.isSha256 === true && objectFormat !== 'sha256')
    throw new HttpError(409, `${repoId} exists already, as a sha1 repository`);
  const capabilities = await pusher.capabilities.of(objectFormat);
  if (found === undefined) return encodePushAdvertisement({ objectFormat, capabilities, lines: NOTHING });
  const folder = await openFolder(pusher, repoId, objectFormat);
  return encodePushAdvertisement({
    objectFormat,
    lines: found.lines,
    capabilities: found.hasMembers
      ? `${capabilities} push-cert=${nonceOf(pusher, folder, objectFormat)}`
      : capabilities,
  });
}

/** The URL of a claim shows its own result ref alone, which no other push is shown. */
async function advertiseClaim(
  pusher: Pusher,
  claim: { repoId: string; claimNumber: bigint },
): Promise<Buffer[]> {
  const { repoId, claimNumber } = claim;
  const name = await readClaimRef(pusher.db, claim);
  if (name === null) throw claimIsGone(claimNumber);
  const state = await readRepo(pusher.db, repoId);
  if (state === undefined) throw noSuchRepository({ repoId });
  const { objectFormat } = state;
  await openFolder(pusher, repoId, objectFormat);
  const oid = await readRef(pusher.db, { repoId, name });
  const lines = oid === undefined ? NOTHING : linesOf([{ oid, name }]);
  return encodePushAdvertisement({
    objectFormat,
    lines,
    capabilities: await pusher.capabilities.of(objectFormat),
  });
}

/** Makes sure that what is there may be pushed to, so that a client hears it before it sends anything. */
async function openFolder(pusher: Pusher, repoId: string, objectFormat: ObjectFormat): Promise<string> {
  const folder = repoFolder(pusher.settings.dataDir, repoId, objectFormat);
  await pusher.guard.require(repoId, folder);
  await ensureRepoFolder(folder, repoId, objectFormat);
  return folder;
}

function nonceOf({ nonceSeed }: Pusher, folder: string, objectFormat: ObjectFormat): string {
  return makeNonce(nonceSeed, { folder, objectFormat, seconds: Math.floor(Date.now() / 1000) });
}

/** For a repository that only a push could make. */
export function noSuchRepository({ repoId }: Pick<RepoAddress, 'repoId'>): HttpError {
  return new HttpError(404, `no such repository: ${repoId}. A first push creates it`);
}

/** For a result push whose claim is no longer open. */
export function claimIsGone(claimNumber: bigint): HttpError {
  return new HttpError(404, `claim ${claimNumber} is gone: it was completed, requeued or never made`);
}
