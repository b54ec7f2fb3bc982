import type { DB } from '@sluice/db';
import type { Logger } from '@sluice/service-kit';
import type { Kysely } from 'kysely';
import { ensureRepoFolder } from '../git/repo-folder.ts';
import { KeyedTurns } from '../keyed-turns.ts';
import { removeUnborn, type Unborn } from '../store/remove-unborn.ts';

/**
 * Pushes to repositories that are not there yet. Git needs a folder to take a push; when the last push to it that is
 * under way has ended and none was accepted, the folder goes again: no quota knows of it.
 */
export class FirstPushes {
  readonly #db: Kysely<DB>;
  readonly #log: Logger;
  readonly #turns = new KeyedTurns();
  readonly #underWay = new Map<string, number>();

  constructor({ db, log }: { db: Kysely<DB>; log: Logger }) {
    this.#db = db;
    this.#log = log;
  }

  /** Runs a push in a folder that is there from its beginning to its end. */
  async run<T>(unborn: Unborn, push: () => Promise<T>): Promise<T> {
    const { folder, repoId, objectFormat } = unborn;
    await this.#turns.run(folder, async () => {
      await ensureRepoFolder(folder, repoId, objectFormat);
      this.#underWay.set(folder, this.#count(folder) + 1);
    });
    try {
      return await push();
    } finally {
      await this.#turns.run(folder, () => this.#leave(unborn));
    }
  }

  async #leave(unborn: Unborn): Promise<void> {
    const { folder, repoId } = unborn;
    const left = this.#count(folder) - 1;
    if (left > 0) {
      this.#underWay.set(folder, left);
      return;
    }
    this.#underWay.delete(folder);
    try {
      await removeUnborn(this.#db, unborn);
    } catch (error) {
      // The sweep at the next start finds it.
      this.#log.warn({ event: 'folder_not_removed', repo_id: repoId, error });
    }
  }

  #count(folder: string): number {
    return this.#underWay.get(folder) ?? 0;
  }
}
