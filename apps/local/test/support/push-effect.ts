import { join } from 'node:path';
import { commitFiles, defineEffect, makeRepo } from '@sluice/testkit';
import { onBranches } from './definition.ts';

/** Makes a repository in `folder` and pushes a branch whose one effect, `ci`, runs the command. */
export async function pushEffect(
  folder: string,
  {
    pusherUrl,
    repoId,
    run,
    more = {},
  }: { pusherUrl: string; repoId: string; run: string; more?: Record<string, unknown> },
): Promise<void> {
  const work = await makeRepo(join(folder, 'work'));
  await commitFiles(work, { 'a.txt': 'a' });
  await defineEffect(work, 'ci', onBranches(run, more));
  await work(['push', '--quiet', `${pusherUrl}/${repoId}.git`, 'main', 'refs/meta/effects/ci']);
}
