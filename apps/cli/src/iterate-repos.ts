import { assertStorable, type DB } from '@sluice/db';
import { iterateRepos as iterateAll } from '@sluice/ref-store';
import type { Kysely } from 'kysely';
import { CommandError } from './command-error.ts';

/** The ids of all repositories, in order; or of one, which must exist. */
export async function* iterateRepos(
  db: Kysely<DB>,
  only: string | undefined,
): AsyncGenerator<string, void, undefined> {
  if (only !== undefined) {
    assertStorable('repo', only);
    const found = await db
      .selectFrom('repo')
      .select('repo_id')
      .where('repo_id', '=', only)
      .executeTakeFirst();
    if (found === undefined) {
      throw new CommandError(
        `there is no repository called ${only.slice(0, 200)}`,
        'sluice repo list shows the ones there are; a push makes another.',
      );
    }
    yield only;
    return;
  }
  for await (const { repoId } of iterateAll(db)) yield repoId;
}
