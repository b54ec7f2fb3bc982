import { PREPARED, table, type DB } from '@sluice/db';
import { sql, type RawBuilder, type Transaction } from 'kysely';
import { directoriesOf, type NamedRefs } from './judge-edits.ts';
import type { Oid } from './oid.ts';
import type { RefEdit } from './ref-edit.ts';

export interface NamedRefRow {
  name: string;
  oid: Oid | null;
  below: string | null;
}

/** Reads all that {@link judgeEdits} needs to know, in one statement whatever the number of edits. */
export async function readNamedRefs(
  trx: Transaction<DB>,
  repoId: string,
  edits: readonly RefEdit[],
): Promise<NamedRefs> {
  return toNamedRefs((await namedRefsQuery(repoId, edits).execute(trx)).rows);
}

/** What the statement's rows say. */
export function toNamedRefs(rows: readonly NamedRefRow[]): NamedRefs {
  const current = new Map<string, Oid>();
  const below = new Map<string, string>();
  for (const row of rows) {
    if (row.oid !== null) current.set(row.name, row.oid);
    if (row.below !== null) below.set(row.name, row.below);
  }
  return { current, below };
}

/** The statement of {@link readNamedRefs}. */
export function namedRefsQuery(repoId: string, edits: readonly RefEdit[]): RawBuilder<NamedRefRow> {
  const roles = new Map<string, 'directory' | 'set' | 'delete'>();
  for (const { name, to } of edits) {
    if (to !== null) for (const directory of directoriesOf(name)) roles.set(directory, 'directory');
  }
  for (const { name, to } of edits) roles.set(name, to === null ? 'delete' : 'set');
  return sql<NamedRefRow>`${PREPARED}
    with named as materialized (
      select name collate "C" as name, role
      from unnest(${[...roles.keys()]}::text[], ${[...roles.values()]}::text[]) as given (name, role)
    )
    select named.name, ref.oid,
      case when named.role = 'set' and ref.oid is null then (
        -- '0' is the character after '/': the range is every name below this one.
        select below.name from ${table('ref')} as below
        where below.repo_id = ${repoId}
          and below.name > named.name || '/' and below.name < named.name || '0'
          and below.name not in (select name from named where role = 'delete')
        order by below.name limit 1
      ) end as below
    from named left join ${table('ref')} as ref on ref.repo_id = ${repoId} and ref.name = named.name
    where named.role = 'set' or ref.oid is not null`;
}
