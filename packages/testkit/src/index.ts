export { useEmptyDatabase, useTestDatabase, type TestDatabase } from './test-database.ts';
export { testServerUrl } from './test-server.ts';
