import type { Scope } from '@sluice/access';
import type { Role } from '@sluice/effect-spec';

/** The scope of a token that makes its holder what a repository's policy calls so. */
export const SCOPE_OF_ROLE: Readonly<Record<Role, Scope>> = {
  admin: 'admin',
  writer: 'write',
  worker: 'worker',
};
