import { CHANNELS, listen } from '@sluice/db';

export interface WatchRefsOptions {
  connectionString: string;
  /** Refs of this repository changed. */
  onChange: (repoId: string) => void;
  /** Listening began, or began again after a lost connection: any repository may have changed meanwhile. */
  onReady?: () => void;
  /** A connection was lost or refused; watching goes on by itself. */
  onError?: (error: unknown) => void;
}

/**
 * Calls back soon after a push to any repository commits, until disposed. A hint that saves looking: notifications
 * can be lost, so whoever must be right compares {@link refsVersion} before use.
 */
export function watchRefs({
  connectionString,
  onChange,
  onReady,
  onError,
}: WatchRefsOptions): AsyncDisposable {
  return listen({
    connectionString,
    channels: [CHANNELS.refs],
    onNotification: (_channel, repoId) => onChange(repoId),
    onReady: onReady ?? (() => {}),
    ...(onError === undefined ? {} : { onError }),
  });
}
