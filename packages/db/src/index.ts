export { createDatabase, createPool, type DatabaseOptions } from './create-database.ts';
export { migrate, migrateDown } from './migrate.ts';
export { SCHEMA, sluice, table } from './schema.ts';
export { ERROR_CATALOGUE, SluiceError, type ErrorCode } from './sluice-error.ts';
export type * from './tables.generated.ts';
