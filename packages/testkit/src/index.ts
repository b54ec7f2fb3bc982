export { useTestDatabase, type TestDatabase } from './test-database.ts';
