import { sql, type Kysely, type RawBuilder } from 'kysely';

interface Node {
  'Node Type': string;
  'Relation Name'?: string;
  'Actual Rows': number;
  'Actual Loops': number;
  'Rows Removed by Filter'?: number;
  'Rows Removed by Join Filter'?: number;
  Plans?: Node[];
}

/**
 * Runs a statement, takes it back, and says how much it did: the rows that all steps of its plan produced or threw
 * away, which is what a wrong plan multiplies, and the tables that were read whole. Statements in `after` run before it,
 * in the same transaction.
 */
export async function rowsTouched<T>(
  db: Kysely<T>,
  statement: RawBuilder<unknown>,
  { after = [] }: { after?: readonly RawBuilder<unknown>[] } = {},
): Promise<{ rows: number; readWhole: Record<string, number> }> {
  const trx = await db.startTransaction().execute();
  try {
    for (const earlier of after) await earlier.execute(trx);
    const result = await sql<{
      'QUERY PLAN': { Plan: Node }[];
    }>`explain (analyze, format json) ${statement}`.execute(trx);
    const nodes = flatten(result.rows[0]!['QUERY PLAN'][0]!.Plan);
    const readWhole: Record<string, number> = {};
    for (const node of nodes) {
      const name = node['Relation Name'];
      if (name === undefined || node['Node Type'] !== 'Seq Scan') continue;
      readWhole[name] = (readWhole[name] ?? 0) + touchedBy(node);
    }
    return { rows: nodes.reduce((sum, node) => sum + touchedBy(node), 0), readWhole };
  } finally {
    await trx.rollback().execute();
  }
}

function touchedBy(node: Node): number {
  const removed = (node['Rows Removed by Filter'] ?? 0) + (node['Rows Removed by Join Filter'] ?? 0);
  return (node['Actual Rows'] + removed) * node['Actual Loops'];
}

function flatten(node: Node): Node[] {
  return [node, ...(node.Plans ?? []).flatMap(flatten)];
}
