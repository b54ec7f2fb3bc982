import { isRetryable, isUnavailable, sqlState, type DB } from '@sluice/db';
import { findPush, type ServerKey } from '@sluice/ref-store';
import { untilAnswered, type Logger } from '@sluice/service-kit';
import type { Kysely } from 'kysely';
import { commitInTransaction } from './commit-transaction.ts';
import type { CommitOutcome, CommittedPush, PushToCommit } from './push-to-commit.ts';

export interface CommitContext {
  db: Kysely<DB>;
  key: ServerKey;
  log: Logger;
  /** How long a push waits for a database that does not answer. */
  databaseWaitMs: number;
}

/**
 * Commits a push and finds out whether it was. Conflicts and lost connections are tried again within a bound. When the
 * connection is lost around COMMIT, the push id, which was known before, is looked up: it is there exactly if the
 * transaction was committed. Never throws: what cannot be settled is a refusal that says what to do.
 */
export async function commitPushForSure(
  { db, key, log, databaseWaitMs }: CommitContext,
  push: Omit<PushToCommit, 'onReady'>,
): Promise<CommitOutcome> {
  /** Set while a transaction with this push id may have been committed. */
  let inDoubt: CommittedPush | null = null;
  const attempt = async (): Promise<CommitOutcome> => {
    if (inDoubt !== null) {
      const found = await findPush(db, { repoId: push.repoId, pushId: inDoubt.pushId });
      if (found !== undefined) return inDoubt;
      inDoubt = null;
    }
    try {
      return await commitInTransaction(db, key, {
        ...push,
        onReady: (outcome) => {
          inDoubt = outcome;
        },
      });
    } catch (error) {
      // The server answered and stayed: it did not commit.
      if (sqlState(error) !== undefined && !isUnavailable(error)) inDoubt = null;
      throw error;
    }
  };
  try {
    return await untilAnswered(attempt, {
      boundMs: databaseWaitMs,
      isRetryable: (error) => inDoubt !== null || isRetryable(error),
      onRetry: ({ error, waitMs }) =>
        log.warn({ event: 'commit_retried', repo_id: push.repoId, error, waitMs }),
    });
  } catch (error) {
    log.error({
      event: 'commit_failed',
      repo_id: push.repoId,
      error,
      push_id: (inDoubt as CommittedPush | null)?.pushId,
    });
    if (inDoubt !== null) {
      return refused(
        'the database went away in mid-commit and did not come back, so the outcome is not known; push again: if it says up to date, it was accepted',
      );
    }
    if (isRetryable(error))
      return refused('the database is not available; nothing was changed, try again in a moment');
    return refused('internal error; nothing was changed, and the server log has the cause');
  }
}

function refused(reasons: string): CommitOutcome {
  return { status: 'refused', reasons };
}
