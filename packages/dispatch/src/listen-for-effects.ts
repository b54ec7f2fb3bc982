import { CHANNELS, listen } from '@sluice/db';
import type { DispatchEvent } from './dispatch-event.ts';

/**
 * Hears of new effects on a connection of its own, until disposed: enqueues announce them while somebody sleeps. What is
 * lost with a connection is for a sweep to find, so `onReady` is called each time that it listens, for the first time or
 * again.
 */
export function listenForEffects(options: {
  connectionString: string;
  emit: (event: DispatchEvent) => void;
  onAnnounced: (repoId: string, effectId: bigint) => void;
  onReady: () => void;
}): AsyncDisposable {
  const { connectionString, emit, onAnnounced, onReady } = options;
  return listen({
    connectionString,
    channels: [CHANNELS.effects],
    onNotification: (_channel, payload) => {
      const [, effectId, repoId] = /^(\d{1,19}) (.+)$/.exec(payload) ?? [];
      if (effectId !== undefined && repoId !== undefined) onAnnounced(repoId, BigInt(effectId));
    },
    onReady: () => {
      emit({ name: 'listening' });
      onReady();
    },
    onError: (error) => emit({ name: 'listen_failed', error }),
  });
}
