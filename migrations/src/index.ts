import type { Migration, MigrationProvider } from 'kysely/migration';
import * as repositories from './0001-repositories.ts';
import * as effectQueue from './0002-effect-queue.ts';
import * as accessTokens from './0003-access-tokens.ts';
import * as pushCertificates from './0004-push-certificates.ts';
import * as autovacuumThresholds from './0005-autovacuum-thresholds.ts';
import * as repoQuotas from './0006-repo-quotas.ts';
import * as fairClaim from './0007-fair-claim.ts';
import * as smallObjectsAreOfPushes from './0008-small-objects-are-of-pushes.ts';

/** Every migration by name, in order. A shipped migration is never edited: add the next number. */
const MIGRATIONS: Record<string, Migration> = {
  '0001-repositories': repositories,
  '0002-effect-queue': effectQueue,
  '0003-access-tokens': accessTokens,
  '0004-push-certificates': pushCertificates,
  '0005-autovacuum-thresholds': autovacuumThresholds,
  '0006-repo-quotas': repoQuotas,
  '0007-fair-claim': fairClaim,
  '0008-small-objects-are-of-pushes': smallObjectsAreOfPushes,
};

/** The one source of migrations for the apps, the tests and kysely-ctl. */
export const migrationProvider: MigrationProvider = {
  getMigrations: () => Promise.resolve(MIGRATIONS),
};
