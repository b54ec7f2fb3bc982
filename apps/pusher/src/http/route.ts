import { isServedName, SERVED_NAME } from '@sluice/effect-spec';

/** Which repository a request is about, and how it was addressed. */
export interface RepoAddress {
  repoId: string;
  /** A dispatcher's result push: the claim it speaks for. */
  claimNumber?: bigint;
  /** `/_sha256/…`: what a repository is created as if this push is its first. */
  isSha256?: boolean;
}

export type Service = 'git-upload-pack' | 'git-receive-pack';

export type Route =
  | { kind: 'health' }
  | { kind: 'metrics' }
  | { kind: 'advertise'; service: Service; address: RepoAddress }
  | { kind: 'serve'; service: Service; address: RepoAddress }
  | { kind: 'refused'; status: 400 | 404; message: string };

const TARGET_BYTES_MAX = 1000;
const CLAIM_NUMBER_MAX = 2n ** 63n - 1n;

/** Reads a request target. Everything that is not exactly one of ours is refused before anything is looked up. */
export function parseRoute(target: string): Route {
  if (target.length > TARGET_BYTES_MAX || !target.startsWith('/'))
    return refused(400, 'expected a short path');
  const [path = '', query = ''] = splitOnce(target, '?');
  if (path === '/_health') return { kind: 'health' };
  if (path === '/_metrics') return { kind: 'metrics' };
  const match = /^(?<repo>\/.+)\/(?<action>info\/refs|git-upload-pack|git-receive-pack)$/.exec(path);
  if (match?.groups === undefined) return refused(404, 'nothing here: expected /<repository>.git');
  const address = parseAddress(match.groups['repo']!);
  if (typeof address === 'string') return refused(404, address);
  const action = match.groups['action'] as Service | 'info/refs';
  const service = action === 'info/refs' ? new URLSearchParams(query).get('service') : action;
  if (service !== 'git-upload-pack' && service !== 'git-receive-pack') {
    return refused(
      400,
      'expected a git client that speaks smart HTTP: ?service=git-upload-pack or git-receive-pack',
    );
  }
  if (address.claimNumber !== undefined && service === 'git-upload-pack') {
    return refused(
      404,
      `nothing is fetched from the URL of a claim, which takes its result: expected /${address.repoId}.git`,
    );
  }
  return { kind: action === 'info/refs' ? 'advertise' : 'serve', service, address };
}

function parseAddress(path: string): RepoAddress | string {
  const claim = /^\/_claim\/([1-9][0-9]{0,18})(\/.+)$/.exec(path);
  if (claim !== null) {
    const claimNumber = BigInt(claim[1]!);
    if (claimNumber > CLAIM_NUMBER_MAX) return 'expected a claim number';
    const repoId = parseRepoId(claim[2]!);
    return repoId === null ? NO_SUCH_NAME : { repoId, claimNumber };
  }
  const isSha256 = path.startsWith('/_sha256/');
  const repoId = parseRepoId(isSha256 ? path.slice('/_sha256'.length) : path);
  if (repoId === null) return NO_SUCH_NAME;
  return isSha256 ? { repoId, isSha256 } : { repoId };
}

const NO_SUCH_NAME = `no such repository: expected /<name>.git with ${SERVED_NAME}`;

/** `/acme/api.git` → `acme/api`. Nothing is decoded: what needs an escape is no name. */
function parseRepoId(path: string): string | null {
  const match = /^\/(.+)\.git$/.exec(path);
  const repoId = match?.[1];
  return repoId !== undefined && isServedName(repoId) ? repoId : null;
}

function splitOnce(text: string, separator: string): [string, string] {
  const at = text.indexOf(separator);
  return at === -1 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)];
}

function refused(status: 400 | 404, message: string): Route {
  return { kind: 'refused', status, message };
}
