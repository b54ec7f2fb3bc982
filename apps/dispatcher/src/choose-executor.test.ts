import { expect, it } from 'vitest';
import { chooseExecutor, type ExecutorWishes } from './choose-executor.ts';

const works: NonNullable<ExecutorWishes['probe']> = () => Promise.resolve({ works: true });
const fails: NonNullable<ExecutorWishes['probe']> = () =>
  Promise.resolve({ works: false, reason: 'no namespaces' });
const base = { isLocal: false, isUnsandboxedAllowed: false, isRoot: false, readOnlyPaths: [] };

it.each([
  [{ wanted: 'auto', probe: works }, 'bubblewrap', undefined],
  [{ wanted: 'bubblewrap', probe: works, isLocal: true }, 'bubblewrap', undefined],
  [{ wanted: 'auto', probe: works, isRoot: true }, 'bubblewrap', 'no limit on processes'],
  [{ wanted: 'auto', probe: works, isRoot: true, isLocal: true }, 'bubblewrap', undefined],
  [{ wanted: 'auto', probe: fails, isLocal: true }, 'host', 'no namespaces'],
  [{ wanted: 'auto', probe: fails, isUnsandboxedAllowed: true }, 'host', 'no namespaces'],
  [{ wanted: 'host', isLocal: true }, 'host', 'without a sandbox'],
  [{ wanted: 'host', isUnsandboxedAllowed: true }, 'host', 'without a sandbox'],
] as const)('%j: %s', async (wishes, name, warning) => {
  const choice = await chooseExecutor({ ...base, ...wishes });
  expect(choice.executor.name).toBe(name);
  if (warning === undefined) expect(choice.warning).toBeUndefined();
  else expect(choice.warning).toContain(warning);
});

it.each([
  [{ wanted: 'host' }, 'start with --unsandboxed'],
  [{ wanted: 'auto', probe: fails }, 'no namespaces. If everybody'],
  [
    { wanted: 'bubblewrap', probe: fails, isLocal: true, isUnsandboxedAllowed: true },
    'does not work here: no namespaces',
  ],
] as const)('%j is refused', async (wishes, message) => {
  await expect(chooseExecutor({ ...base, ...wishes })).rejects.toThrow(message);
});
