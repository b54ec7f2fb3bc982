import { useTestDatabase } from '@sluice/testkit';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { unsafeSettings } from './unsafe-settings.ts';

const database = useTestDatabase();

test('names what the server does without, as SHOW says it', async () => {
  const off: string[] = [];
  for (const name of ['fsync', 'full_page_writes'] as const) {
    const { rows } = await sql<Record<string, string>>`show ${sql.id(name)}`.execute(database.db);
    if (rows[0]![name] === 'off') off.push(name);
  }
  expect(await unsafeSettings(database.db)).toEqual(off);
});
