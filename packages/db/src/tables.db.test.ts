import { useTestDatabase } from '@sluice/testkit';
import { readFileSync } from 'node:fs';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { SCHEMA } from './schema.ts';

const database = useTestDatabase();

interface Column {
  relation: string;
  name: string;
  type: string;
}

async function columns(): Promise<Column[]> {
  const { rows } = await sql<Column>`
    select c.relname as relation, a.attname as name, format_type(a.atttypid, null) as type
      from pg_attribute a join pg_class c on c.oid = a.attrelid
     where c.relnamespace = ${SCHEMA}::text::regnamespace and c.relkind in ('r', 'p', 'v') and not c.relispartition
       and c.relname not like 'kysely%' and a.attnum > 0 and not a.attisdropped
     order by 1, 2`.execute(database.db);
  expect(rows.length).toBeGreaterThan(80);
  return rows;
}

/** What node-postgres makes of a value of each type, and the name that the generated types must give to it. */
const TYPES: Record<string, { sample: string; isRead: (value: unknown) => boolean; declared: string }> = {
  bigint: {
    sample: '9007199254740993',
    isRead: (value) => value === 9_007_199_254_740_993n,
    declared: 'bigint',
  },
  integer: { sample: '2147483647', isRead: (value) => value === 2_147_483_647, declared: 'number' },
  smallint: { sample: '-7', isRead: (value) => value === -7, declared: 'number' },
  boolean: { sample: 'true', isRead: (value) => value === true, declared: 'boolean' },
  text: { sample: 'é', isRead: (value) => value === 'é', declared: 'string' },
  'text[]': {
    sample: '{a,b}',
    isRead: (value) => Array.isArray(value) && value.join(' ') === 'a b',
    declared: 'string[]',
  },
  bytea: {
    sample: String.raw`\x00ff`,
    isRead: (value) => Buffer.isBuffer(value) && value.length === 2,
    declared: 'Buffer',
  },
  uuid: { sample: '0'.repeat(32), isRead: (value) => typeof value === 'string', declared: 'string' },
  'timestamp with time zone': {
    sample: '2030-01-02T03:04:05.678+05:30',
    isRead: (value) => value instanceof Date && value.toISOString() === '2030-01-01T21:34:05.678Z',
    declared: 'Timestamp',
  },
};

test('every column is of a type that says what it means on both sides', async () => {
  const generated = readFileSync(new URL('./tables.generated.ts', import.meta.url), 'utf8');
  const interfaces = new Map(
    [...generated.matchAll(/^export interface (\w+) \{\n([^]*?)^\}/gm)].map((match) => [
      match[1]!,
      match[2]!,
    ]),
  );
  for (const { relation, name, type } of await columns()) {
    const known = TYPES[type];
    expect([relation, name, type, known === undefined ? 'a type not listed' : 'known']).toEqual([
      relation,
      name,
      type,
      'known',
    ]);
    const body = interfaces.get(
      relation.replace(/(?:^|_)(\w)/g, (_, letter: string) => letter.toUpperCase()),
    );
    const declared = new RegExp(`^  ${name}: (?:Generated<)?([\\w[\\]]+)>?(?: \\| null)?;`, 'm').exec(
      body ?? '',
    )?.[1];
    expect(`${relation}.${name}: ${declared}`).toBe(`${relation}.${name}: ${known!.declared}`);
  }
});

test.each(Object.entries(TYPES))(
  'a value of type %s is read as declared',
  async (type, { sample, isRead }) => {
    const { rows } = await sql<{ value: unknown }>`select ${sample}::text::${sql.raw(type)} as value`.execute(
      database.db,
    );
    expect(rows[0]!.value).toSatisfy(isRead);
  },
);

test('nothing that counts rows or pushes is narrower than eight bytes', async () => {
  const { rows } = await sql<{ name: string; type: string; top: bigint }>`
    select sequencename as name, data_type::text as type, max_value as top from pg_sequences
     where schemaname = ${SCHEMA}::text`.execute(database.db);
  expect(rows.map(({ name }) => name)).toEqual(
    expect.arrayContaining(['effect_id_seq', 'effect_claim_number_seq']),
  );
  expect(rows.filter(({ type, top }) => type !== 'bigint' || top !== 2n ** 63n - 1n)).toEqual([]);
  const ids = (await columns()).filter(
    ({ name, type }) =>
      /^(effect_id|claim_number|op_seq|refs_version|\w+_id)$/.test(name) && /int/.test(type),
  );
  expect(ids.length).toBeGreaterThan(8);
  expect(ids.filter(({ type }) => type !== 'bigint')).toEqual([]);
});

test('nothing in the schema runs code whose names a search path resolves: a dump loads anywhere', async () => {
  const names = sql.join((await database.db.introspection.getTables()).map(({ name }) => name));
  const { rows } = await sql<{ what: string }>`
    select 'function ' || proname || ' ' || found[1] as what
      from pg_proc, regexp_matches(prosrc, '\\m(?:from|join|into|update|nextval\\W)\\s*(\\w+)(?![\\w.])', 'g') found
     where pronamespace = ${SCHEMA}::text::regnamespace and found[1] in (${names})
    union all
    select 'trigger ' || tgname from pg_trigger t join pg_class c on c.oid = tgrelid
     where c.relnamespace = ${SCHEMA}::text::regnamespace and not tgisinternal`.execute(database.db);
  expect(rows).toEqual([]);
});
