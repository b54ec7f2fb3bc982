export { freePort } from './free-port.ts';
export {
  startLocalPostgres,
  startThrowawayPostgres,
  type LocalPostgres,
  type LocalPostgresOptions,
  type PostgresMajor,
} from './start-local-postgres.ts';
export { supervise, type SuperviseOptions } from './supervisor.ts';
