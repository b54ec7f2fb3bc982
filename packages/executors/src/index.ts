export { createBubblewrapExecutor, type BubblewrapExecutorOptions } from './bubblewrap-executor.ts';
export { bubblewrapWorks } from './bubblewrap-works.ts';
export {
  DEFAULT_LIMITS,
  type EffectExecutor,
  type EffectLimits,
  type EffectSpec,
  type EffectStatus,
  type RunContext,
} from './effect-executor.ts';
export { createHostExecutor } from './host-executor.ts';
export { UnsafeTreeError } from './check-tree-entries.ts';
export { materialiseTree } from './materialise-tree.ts';
export { GitError, runGit, type GitCommand } from './run-git.ts';
export { killMarkedProcesses } from './kill-marked-processes.ts';
export { createGitDir } from './create-git-dir.ts';
