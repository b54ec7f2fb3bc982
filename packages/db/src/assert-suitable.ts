import { sql, type Kysely } from 'kysely';
import { SluiceError } from './sluice-error.ts';

const VERSION_MIN = 15;

/** Throws `database_unsuitable` if the server is too old, or the database cannot hold every text. */
export async function assertSuitable<DB>(db: Kysely<DB>): Promise<void> {
  const { rows } = await sql<{ version: string; number: string; encoding: string }>`
    select current_setting('server_version') as version, current_setting('server_version_num') as number,
           current_setting('server_encoding') as encoding`.execute(db);
  const { version, number, encoding } = rows[0]!;
  if (Number(number) < VERSION_MIN * 10_000) {
    throw unsuitable(`expected PostgreSQL ${VERSION_MIN} or newer, got ${version}.`, 'Upgrade the server.');
  }
  // SQL_ASCII takes any bytes for any text, the others lack characters: what comes back is not what was stored.
  if (encoding !== 'UTF8') {
    throw unsuitable(
      `expected a database with the encoding UTF8, got ${encoding}.`,
      "Make another: create database sluice encoding 'UTF8' template template0.",
    );
  }
}

function unsuitable(problem: string, next: string): SluiceError {
  return new SluiceError('database_unsuitable', `DATABASE_URL: ${problem}`, { next });
}
