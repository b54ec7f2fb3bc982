import type { DB } from '@sluice/db';
import type { Role } from '@sluice/effect-spec';
import type { Kysely } from 'kysely';

/** Who pushes, as far as that decides what becomes of a push. */
export interface PushCaller {
  /** As op records, work orders and logs name it; null: nobody in particular. */
  signer: string | null;
  /** What it is to a repository's policy. */
  roles: (repoId: string) => readonly Role[];
  /** Whether its credentials open every repository with every right. */
  isServerAdmin: boolean;
  /** Whether the server of an adopted repository says who it is, and not a token. */
  isUser: boolean;
  /** Why its credentials hold no more, as a push may take longer than a revocation; null: they do. */
  judgeAgain: (db: Kysely<DB>) => Promise<{ reason: string } | null>;
}
