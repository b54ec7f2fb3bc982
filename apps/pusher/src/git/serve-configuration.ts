import { NONCE_SECONDS_MAX } from './certificate-nonce.ts';
import type { ConfigEntry } from './git-environment.ts';

const RESULTS = 'refs/meta/results';

/**
 * A larger blob is passed on as it comes. Below git's own 512m, a few megabytes of eight that inflate to 300 MiB each cost
 * 3 GiB with every fetch, which looks for deltas between them, and 700 MiB with every repack. Nor does git, asked what a blob is, hold all of it.
 */
export const NOT_DELTIFIED: ConfigEntry = ['core.bigFileThreshold', '64m'];

/** Configuration of every git process that serves a client. */
function common(folder: string): ConfigEntry[] {
  return [
    ['safe.directory', folder],
    // Local refs may lag behind the database, so git must never decide by itself which objects are unused.
    ['gc.auto', '0'],
    ['maintenance.auto', 'false'],
    ['core.logAllRefUpdates', 'false'],
    NOT_DELTIFIED,
    ['pack.windowMemory', '64m'],
  ];
}

/** For `git upload-pack`: any commit may be fetched by its OID, since a dispatcher fetches the one it is pinned to. */
export function uploadPackConfiguration(folder: string): ConfigEntry[] {
  return [...common(folder), ['uploadpack.allowAnySHA1InWant', 'true']];
}

export interface ReceivePackConfiguration {
  folder: string;
  hooksFolder: string;
  pushBytesMax: number;
  /** The one result ref that a claim may write; null: an ordinary push. */
  claimRef: string | null;
  /** Lets clients sign; null: there is nobody whose signature could be checked. */
  nonceSeed: string | null;
}

/** Wherever pushes are received: objects are kept as packs, checked and made durable, and every ref goes to proc-receive. */
export function adoptedConfiguration({
  nonceSeed,
}: Pick<ReceivePackConfiguration, 'nonceSeed'>): ConfigEntry[] {
  return [
    ['core.fsync', 'all'],
    ['receive.procReceiveRefs', 'refs'],
    ['receive.unpackLimit', '1'],
    ['receive.shallowUpdate', 'false'],
    ['receive.advertisePushOptions', 'true'],
    ['receive.fsckObjects', 'true'],
    ...(nonceSeed === null
      ? []
      : ([
          ['receive.certNonceSeed', nonceSeed],
          ['receive.certNonceSlop', String(NONCE_SECONDS_MAX)],
        ] as const)),
    // A push is always shown every ref that is not hidden, and thousands of results would slow each one down.
    ['receive.hideRefs', RESULTS],
  ];
}

/** For `git receive-pack` as the pusher runs it. */
export function receivePackConfiguration(options: ReceivePackConfiguration): ConfigEntry[] {
  const { folder, hooksFolder, pushBytesMax, claimRef, nonceSeed } = options;
  return [
    ...common(folder),
    ...adoptedConfiguration({ nonceSeed }),
    ['core.hooksPath', hooksFolder],
    ['receive.maxInputSize', String(pushBytesMax)],
    ['receive.autogc', 'false'],
    ...(claimRef === null ? [] : [['receive.hideRefs', `!${claimRef}`] as const]),
  ];
}
