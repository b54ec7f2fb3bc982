export { createToken, REPOS_MAX, type CreatedToken, type NewToken } from './create-token.ts';
export { findToken, type FoundToken } from './find-token.ts';
export { listTokens, type ListedToken } from './list-tokens.ts';
export { exceededRepoQuota, repoQuotaFault, type RepoQuota } from './repo-quota.ts';
export { revokeToken } from './revoke-token.ts';
export { isCovered } from './repo-pattern.ts';
export { hasScope, isScope, SCOPES, type Scope } from './scope.ts';
