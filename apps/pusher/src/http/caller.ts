import { findToken, hasScope, isCovered, type FoundToken, type Scope } from '@sluice/access';
import type { Role } from '@sluice/effect-spec';
import type { PushCaller } from '../push/push-caller.ts';
import { SCOPE_OF_ROLE } from '../push/scope-of-role.ts';

/**
 * Why somebody may not do something: 401 if other credentials are needed for anything at all, 403 if only for this, 429
 * if it is too much of it.
 */
export interface Denial {
  status: 401 | 403 | 429;
  reason: string;
  retryAfterSeconds?: number;
}

const ROLES = Object.keys(SCOPE_OF_ROLE) as Role[];

/** Who sent a request, and what that lets it do. */
export interface Caller extends PushCaller {
  /** Whose requests and repositories are counted together, and how many of these it may make; null: nobody's. */
  account: { name: string; reposMax: number | null } | null;
  /** Judges by what was known when the request came. */
  judge(scope: Scope, repoId: string): Denial | null;
  /** Whether it may see what concerns the whole server. */
  judgeServer(): Denial | null;
}

/** Whoever knows the server's one token, or reaches a port that only this machine reaches. */
export const ANYONE: Caller = {
  signer: null,
  account: null,
  judge: () => null,
  roles: () => ROLES,
  isServerAdmin: true,
  isUser: false,
  judgeServer: () => null,
  judgeAgain: () => Promise.resolve(null),
};

/** Whose requests are counted. Nobody's, if it may see the whole server: it runs that, or its effects, and is no crowd. */
export function countedAccount(caller: Caller): string | null {
  return caller.judgeServer() === null ? null : (caller.account?.name ?? null);
}

/** Whoever showed this token. Its scopes and repositories never change, so only its standing is judged again. */
export function tokenCaller(token: FoundToken, text: string): Caller {
  const { name, scopes, repoPattern, reposMax } = token;
  const judge = (scope: Scope, repoId: string): Denial | null => {
    const gone = judgeStanding(token);
    if (gone !== null) return gone;
    if (!isCovered(repoPattern, repoId)) {
      return deny(`this token of ${name} is for ${repoPattern}, which does not cover ${repoId}`);
    }
    if (hasScope(scopes, scope)) return null;
    return deny(`expected a token with ${scope} for ${repoId}, got one with ${scopes.join(', ')}`);
  };
  return {
    signer: `token:${name}`,
    account: { name, reposMax },
    judge,
    roles: (repoId) => ROLES.filter((role) => judge(SCOPE_OF_ROLE[role], repoId) === null),
    isServerAdmin: token.standing === 'valid' && repoPattern === '*' && hasScope(scopes, 'admin'),
    isUser: false,
    judgeServer: () => {
      const gone = judgeStanding(token);
      if (gone !== null) return gone;
      const isEnough = repoPattern === '*' && (hasScope(scopes, 'admin') || hasScope(scopes, 'worker'));
      return isEnough ? null : deny('expected a token with admin or worker for all repositories');
    },
    judgeAgain: async (db) => judgeStanding(await findToken(db, text)),
  };
}

function judgeStanding(token: FoundToken | undefined): Denial | null {
  if (token?.standing === 'valid') return null;
  const reason =
    token?.standing === 'expired'
      ? 'this token has expired; ask for a new one'
      : 'this token was revoked; ask for a new one';
  return { status: 401, reason };
}

function deny(reason: string): Denial {
  return { status: 403, reason };
}
