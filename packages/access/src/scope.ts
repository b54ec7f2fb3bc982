/** What a token may be for. */
export const SCOPES = ['read', 'write', 'admin', 'worker'] as const;

export type Scope = (typeof SCOPES)[number];

/**
 * What each scope brings along. Who may push has to see what is there; who decides what a push runs could push anything.
 * `worker` stands alone: it opens the URLs of open claims and, to who may read as well, what a policy has for workers.
 */
const INCLUDES: Readonly<Record<Scope, readonly Scope[]>> = {
  read: ['read'],
  write: ['write', 'read'],
  admin: ['admin', 'write', 'read'],
  worker: ['worker'],
};

export function isScope(text: string): text is Scope {
  return (SCOPES as readonly string[]).includes(text);
}

/** Whether these scopes allow what `needed` stands for. */
export function hasScope(scopes: readonly Scope[], needed: Scope): boolean {
  return scopes.some((scope) => INCLUDES[scope].includes(needed));
}
