import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createBubblewrapExecutor, type BubblewrapExecutorOptions } from './bubblewrap-executor.ts';
import { DEFAULT_LIMITS } from './effect-executor.ts';

/** Runs `true` in a real sandbox. If that fails the reason says what to do about it. */
export async function bubblewrapWorks(
  options: BubblewrapExecutorOptions = {},
): Promise<{ works: true } | { works: false; reason: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-probe-'));
  try {
    await mkdir(join(folder, 'work'));
    const { status, reason } = await createBubblewrapExecutor(options).run(
      {
        command: { argv: ['true'] },
        env: {},
        folder,
        timeoutMs: 15_000,
        hasNetwork: false,
        limits: DEFAULT_LIMITS,
      },
      { signal: new AbortController().signal, onOutput: () => Promise.resolve() },
    );
    if (status === 'pass') return { works: true };
    return { works: false, reason: explain(reason ?? status) };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function explain(reason: string): string {
  if (/namespace|Operation not permitted|Permission denied/.test(reason)) {
    return `${reason}. This machine or container forbids user namespaces; allow them (sysctl kernel.unprivileged_userns_clone=1, or an AppArmor or seccomp profile that permits bwrap)`;
  }
  return reason;
}
