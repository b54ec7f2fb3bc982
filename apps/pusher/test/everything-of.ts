import { cpSync, existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { table, type DB } from '@sluice/db';
import { repoFolder } from '@sluice/ref-store';
import { gitIn } from '@sluice/testkit';
import { sql, type Kysely } from 'kysely';

/** All that the database holds of a repository, and the objects that a prune would leave of it. */
export interface Everything {
  /** By table, each row as JSON. */
  rows: Record<string, string[]>;
  /** `<oid> <kind>`; null: there is no folder. */
  objects: string[] | null;
}

/** Reads it, for a comparison: a refused push leaves everything as it was. */
export async function everythingOf(
  db: Kysely<DB>,
  { repoId, folder }: { repoId: string; folder: string },
): Promise<Everything> {
  const rows: Everything['rows'] = {};
  for (const name of await tablesWithRepo(db)) {
    const found = await sql<{ row: string }>`
      select to_jsonb(t)::text as row from ${table(name)} t where repo_id = ${repoId} order by 1`.execute(db);
    if (found.rows.length > 0) rows[name] = found.rows.map(({ row }) => row);
  }
  const refs = await db.selectFrom('ref').select(['name', 'oid']).where('repo_id', '=', repoId).execute();
  return { rows, objects: await prunedObjects(repoFolder(join(folder, 'data'), repoId, 'sha1'), refs) };
}

async function tablesWithRepo(db: Kysely<DB>): Promise<(keyof DB)[]> {
  const { rows } = await sql<{ name: keyof DB }>`
    select c.relname as name from pg_class c
      join pg_attribute a on a.attrelid = c.oid and a.attname = 'repo_id' and not a.attisdropped
     where c.relnamespace = 'sluice'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
     order by 1`.execute(db);
  return rows.map(({ name }) => name);
}

/** In a copy, whose refs are those of the database. */
async function prunedObjects(
  repo: string,
  refs: readonly { name: string; oid: string }[],
): Promise<string[] | null> {
  if (!existsSync(repo)) return null;
  const copy = `${repo}.copy`;
  cpSync(repo, copy, { recursive: true });
  try {
    const git = gitIn(copy);
    for (const stale of ['packed-refs', 'refs/heads', 'refs/tags'])
      rmSync(join(copy, stale), { recursive: true, force: true });
    await git(['update-ref', '--stdin'], {
      input: refs.map(({ name, oid }) => `update ${name} ${oid}\n`).join(''),
    });
    await git(['repack', '-a', '-d', '-q']);
    await git(['prune', '--expire=now']);
    const listed = await git([
      'cat-file',
      '--batch-all-objects',
      '--batch-check=%(objectname) %(objecttype)',
    ]);
    return listed === '' ? [] : listed.split('\n');
  } finally {
    rmSync(copy, { recursive: true });
  }
}
