export { checkNameToSet, checkRefName } from './check-ref-name.ts';
export { commitPush, type CommitPushOptions, type PushOutcome } from './commit-push.ts';
export type { LogProblem } from './found-problem.ts';
export { countRefs } from './count-refs.ts';
export { findPush, type FoundPush } from './find-push.ts';
export { hashObject, type ObjectKind } from './hash-object.ts';
export { NOT_APPLIED } from './judge-edits.ts';
export { iteratePushes, type LoggedPush } from './iterate-pushes.ts';
export { iterateRepos, type KnownRepo } from './iterate-repos.ts';
export { lockForPush, type LockedForPush } from './lock-for-push.ts';
export { lockRepo, type LockedRepo, type LockRepoOptions } from './lock-repo.ts';
export { formatOf, zeroOid, type ObjectFormat, type Oid } from './oid.ts';
export { encodeEdits } from './op-record.ts';
export { readKeptOids, type KeptOids, type ReadKeptOidsOptions } from './read-kept-oids.ts';
export { checkPushOption } from './push-option.ts';
export { readObjects, type SmallObject } from './read-objects.ts';
export { readRef } from './read-ref.ts';
export {
  iterateRefs,
  readRefs,
  refPages,
  refsQuery,
  type ReadRefsOptions,
  type RefRow,
} from './read-refs.ts';
export { readRefsSince, type RefChange } from './read-refs-since.ts';
export { readRepo, type RepoState } from './read-repo.ts';
export type { AppliedEdit, RefEdit, Refusal } from './ref-edit.ts';
export {
  readServerKeys,
  registerServerKey,
  retireServerKey,
  type RegisteredKey,
} from './register-server-key.ts';
export { loadServerKey, type ServerKey } from './server-key.ts';
export { sshKeygenVerifies } from './ssh-keygen.ts';
export { NOTES, repoFolder } from './repo-folder.ts';
export { requestOf } from './read-op-record.ts';
export { isFileMode, treeEntry } from './tree-entry.ts';
export { verifyLog, type LogCheck, type VerifyLogOptions } from './verify-log.ts';
export { verifyOpRecord, type OpRecordCheck } from './verify-op-record.ts';
