export {
  startLocalPostgres,
  startThrowawayPostgres,
  type LocalPostgres,
  type LocalPostgresOptions,
  type PostgresMajor,
} from './start-local-postgres.ts';
