import type { PushCaller } from '../push/push-caller.ts';
import type { HookSettings } from './hook-settings.ts';

/**
 * Whoever the server let in. It judged them before git started, so there are no credentials to judge again, and none
 * of them is an admin of Sluice: what governs a repository is repaired through the pusher.
 */
export function hookCaller({ pusher, admins }: HookSettings): PushCaller {
  const isAdmin = admins.length === 0 || admins.includes(pusher);
  return {
    signer: `user:${pusher}`,
    roles: () => (isAdmin ? ['admin', 'writer'] : ['writer']),
    isServerAdmin: false,
    isUser: true,
    judgeAgain: () => Promise.resolve(null),
  };
}
