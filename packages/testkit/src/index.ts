export { freePort } from '@sluice/local-postgres';
export {
  commitFileAt,
  commitFiles,
  defineEffect,
  gitIn,
  makeRepo,
  type Git,
  type GitOptions,
  type GitResult,
} from './git.ts';
export {
  makeCertificate,
  makeKey,
  signingWith,
  verifiesOutside,
  type CertificateParts,
  type SigningKey,
} from './signing.ts';
export { spawnApp, type SpawnAppOptions, type SpawnedApp } from './spawn-app.ts';
export { PGBOUNCER_CONNECTIONS, startPgBouncer, type PgBouncer } from './start-pgbouncer.ts';
export { startTcpProxy, type TcpProxy } from './tcp-proxy.ts';
export { makeTempFolder, useTempFolder } from './temp-folder.ts';
export { useEmptyDatabase, useTestDatabase, type TestDatabase } from './test-database.ts';
export { untilRemovable } from './until-removable.ts';
