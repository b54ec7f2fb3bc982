import pg from 'pg';
import { useTestDatabase } from '@sluice/testkit';
import { test } from 'vitest';

const database = useTestDatabase();

test('passes, and leaves a connection open', async () => {
  const leak = new pg.Client({ connectionString: database.url, application_name: 'a forgotten client' });
  leak.on('error', () => {});
  await leak.connect();
});
