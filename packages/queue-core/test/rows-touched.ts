import { CompiledQuery, type Kysely, type RawBuilder } from 'kysely';

interface Node {
  'Node Type': string;
  'Relation Name'?: string;
  'Actual Rows': number;
  'Actual Loops': number;
  'Rows Removed by Filter'?: number;
  'Rows Removed by Join Filter'?: number;
  Plans?: Node[];
}

/** A prepared statement outlives the transaction that made it. */
let prepared = 0;

interface Touched {
  rows: number;
  readWhole: Record<string, number>;
}

/**
 * Runs a statement, takes it back, and says how much it did: the rows that all steps of its plan produced or threw
 * away, which is what a wrong plan multiplies, and the tables that were read whole. Statements in `after` run before it,
 * in the same transaction. One that is prepared by our pools runs twice, also with a plan made for any values: that of
 * the two which did more counts.
 */
export async function rowsTouched<T>(
  db: Kysely<T>,
  statement: RawBuilder<unknown> | CompiledQuery,
  { after = [] }: { after?: readonly (RawBuilder<unknown> | CompiledQuery)[] } = {},
): Promise<Touched> {
  const { sql: text, parameters } = 'sql' in statement ? statement : statement.compile(db);
  const first = after.map((each) => ('sql' in each ? each : each.compile(db)));
  const explain = 'explain (analyze, format json) ';
  const custom = await touchedIn(db, [...first, CompiledQuery.raw(explain + text, [...parameters])]);
  if (!text.startsWith('/* prepared */')) return custom;
  const name = `touched_${(prepared += 1)}`;
  const generic = await touchedIn(db, [
    ...first,
    CompiledQuery.raw('set local plan_cache_mode = force_generic_plan'),
    CompiledQuery.raw(`prepare ${name} as ${text}`),
    CompiledQuery.raw(`${explain} execute ${name} (${parameters.map(literal).join(', ')})`),
  ]);
  return generic.rows > custom.rows || Object.keys(generic.readWhole).length > 0 ? generic : custom;
}

async function touchedIn<T>(db: Kysely<T>, statements: readonly CompiledQuery[]): Promise<Touched> {
  const trx = await db.startTransaction().execute();
  try {
    let answer: unknown[] = [];
    for (const statement of statements) answer = (await trx.executeQuery(statement)).rows;
    const nodes = flatten((answer as { 'QUERY PLAN': { Plan: Node }[] }[])[0]!['QUERY PLAN'][0]!.Plan);
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

type Scalar = string | number | bigint | boolean;

/** A parameter as SQL text; of the kinds that statements of the queue have. */
function literal(value: unknown): string {
  if (value === null || value === undefined) return 'null';
  const items = value instanceof Uint8Array ? textsOf(Buffer.from(value)) : value;
  const text = Array.isArray(items)
    ? `{${items.map((item: unknown) => (item === null ? 'null' : JSON.stringify(String(item as Scalar)))).join(',')}}`
    : String(items as Scalar);
  return `'${text.replaceAll("'", "''")}'`;
}

/** The texts of an array in PostgreSQL's binary form. */
function textsOf(bytes: Buffer): (string | null)[] {
  const texts: (string | null)[] = [];
  for (let at = 20; at < bytes.length;) {
    const length = bytes.readInt32BE(at);
    texts.push(length < 0 ? null : bytes.toString('utf8', at + 4, at + 4 + length));
    at += 4 + Math.max(0, length);
  }
  return texts;
}

function touchedBy(node: Node): number {
  const removed = (node['Rows Removed by Filter'] ?? 0) + (node['Rows Removed by Join Filter'] ?? 0);
  return (node['Actual Rows'] + removed) * node['Actual Loops'];
}

function flatten(node: Node): Node[] {
  return [node, ...(node.Plans ?? []).flatMap(flatten)];
}
