import {
  bubblewrapWorks,
  createBubblewrapExecutor,
  createHostExecutor,
  type EffectExecutor,
} from '@sluice/executors';

export interface ExecutorChoice {
  executor: EffectExecutor;
  /** What an operator should know about it. */
  warning?: string;
}

export interface ExecutorWishes {
  wanted: 'auto' | 'bubblewrap' | 'host';
  /** Started by one person for themselves, on loopback: `SLUICE_LOCAL=1` and not `NODE_ENV=production`. */
  isLocal: boolean;
  /** `--unsandboxed` was given. */
  isUnsandboxedAllowed: boolean;
  readOnlyPaths: readonly string[];
  isRoot: boolean;
  /** Replaced in tests. */
  probe?: typeof bubblewrapWorks;
}

/** Refuses to start: the message says why, and what would be accepted. */
class ExecutorRefusedError extends Error {
  override readonly name = 'ExecutorRefusedError';
}

/** The sandbox wherever it works. Without one, code of whoever may push would run with the dispatcher's own rights. */
export async function chooseExecutor(wishes: ExecutorWishes): Promise<ExecutorChoice> {
  const { wanted, isLocal, isUnsandboxedAllowed, readOnlyPaths, isRoot, probe = bubblewrapWorks } = wishes;
  const mayUseHost = isLocal || isUnsandboxedAllowed;
  if (wanted === 'host') {
    if (!mayUseHost)
      throw new ExecutorRefusedError(`SLUICE_EXECUTOR=host runs effects without a sandbox. ${HOW_TO_ALLOW}`);
    return { executor: createHostExecutor(), warning: HOST_WARNING };
  }
  const probed = await probe({ readOnlyPaths });
  if (probed.works) {
    const executor = createBubblewrapExecutor({ readOnlyPaths });
    return isRoot && !isLocal ? { executor, warning: ROOT_WARNING } : { executor };
  }
  if (wanted === 'bubblewrap')
    throw new ExecutorRefusedError(
      `SLUICE_EXECUTOR=bubblewrap, but the sandbox does not work here: ${probed.reason}`,
    );
  if (!mayUseHost) throw new ExecutorRefusedError(`No sandbox works here: ${probed.reason}. ${HOW_TO_ALLOW}`);
  return {
    executor: createHostExecutor(),
    warning: `${HOST_WARNING} The sandbox does not work here: ${probed.reason}`,
  };
}

const HOST_WARNING = 'Effects run without a sandbox, with all the rights of this user.';
const ROOT_WARNING =
  'The dispatcher runs as root, so the kernel applies no limit on processes to effects. Run it as an ordinary user.';
const HOW_TO_ALLOW =
  'If everybody who may push may also do anything on this machine as this user, start with --unsandboxed';
