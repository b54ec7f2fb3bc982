import { CHANNELS, PREPARED, table, textArray, type DB } from '@sluice/db';
import { sql, type CompiledQuery, type Kysely, type RawBuilder } from 'kysely';
import { isToBeTold } from './is-to-be-told.ts';
import type { NewEffect } from './new-effect.ts';
import { nextEffectId } from './sequences.ts';
import { filled, templateOf, type Template } from './template.ts';

/** The row behind a batch: null if it was not written. */
interface Inserted {
  ids: string | null;
}

/** Given ids, or the next ones; and then what a limit on waiting effects keeps out: the whole batch, or its repo's. */
type Options = { ids: readonly bigint[] } | { unlessLimited: 'batch' | 'effect' };

/**
 * Appends effects to the queue in one statement, whatever their number, and returns their ids in the given order: the
 * given `ids`, or the next ones. With `unlessLimited`, a batch that names a repo with a limit on waiting effects is
 * not written and `undefined` comes back.
 *
 * `pg_notify` makes a commit wait for every other that notifies (measured: a third of the rate of enqueues), so it is
 * called only when a dispatcher sleeps that is none of `told`, at most once per repo, and never for effects that have to wait anyway.
 */
export async function insertEffects(
  db: Kysely<DB>,
  effects: readonly NewEffect[],
  options: { ids: readonly bigint[] } | { unlessLimited: 'batch' },
  told: readonly string[] = [],
): Promise<bigint[] | undefined> {
  const { rows } = await db.executeQuery<Inserted>(insertManyQuery(effects, options, told));
  return rows[0]?.ids?.split(' ').map(BigInt);
}

/** {@link insertEffects} for those whose repo has no limit; the others are not written, and have no id. */
export async function insertUnlimited(
  db: Kysely<DB>,
  effects: readonly NewEffect[],
  told: readonly string[] = [],
): Promise<(bigint | undefined)[]> {
  const query = insertManyQuery(effects, { unlessLimited: 'effect' }, told);
  const { rows } = await db.executeQuery<Inserted>(query);
  return rows[0]!.ids!.split(' ').map((id) => (id === '' ? undefined : BigInt(id)));
}

/** What an effect may bring besides repo and payload: the type of its column, and how it is read. */
const OPTIONAL = {
  name: { type: 'text', of: (effect: NewEffect) => effect.name ?? '' },
  priority: { type: 'smallint', of: (effect: NewEffect) => effect.priority ?? 0 },
  maxAttempts: { type: 'integer', of: (effect: NewEffect) => effect.maxAttempts ?? 3 },
  runAt: { type: 'timestamptz', of: (effect: NewEffect) => effect.runAt?.toISOString() ?? null },
  delayMs: { type: 'double precision', of: (effect: NewEffect) => effect.delayMs ?? null },
  dedupKey: { type: 'text', of: (effect: NewEffect) => effect.dedupKey ?? null },
  concurrencyGroup: { type: 'text', of: (effect: NewEffect) => effect.concurrencyGroup ?? null },
  pushId: { type: 'text', of: (effect: NewEffect) => effect.pushId ?? null },
} as const;
type Optional = keyof typeof OPTIONAL;
type Name = Optional | 'ids' | 'repoIds' | 'payloads' | 'limitedRepoIds' | 'told';
const OPTIONALS = Object.keys(OPTIONAL) as Optional[];

/** What the statement depends on. */
interface Shape {
  /** Where the ids come from: given, or drawn for the whole batch or each effect unless that is limited. */
  ids: 'given' | 'batch' | 'effect';
  /** In which effects of the batch differ; of every other column there is one value for all. */
  varying: ReadonlySet<Optional>;
}

const templates = new Map<string, Template<Name>>();

/**
 * Every connection keeps each statement that it prepared, and columns that vary or do not make hundreds: beyond so many
 * shapes, all columns vary.
 */
const SHAPES_MAX = 30;

/**
 * The statement behind {@link insertEffects}. PostgreSQL keeps each array that it unnests as a table of its own, so
 * only what differs within the batch is an array: of most batches two, and the name. Measured, of 1,000: 7 to 8 µs for
 * each, client and server, and 11 with an array for every column.
 */
export function insertManyQuery(
  effects: readonly NewEffect[],
  options: Options,
  told: readonly string[] = [],
): CompiledQuery<Inserted> {
  const varying = OPTIONALS.filter((name) => {
    const { of } = OPTIONAL[name];
    const first = of(effects[0]!);
    return !effects.every((effect) => of(effect) === first);
  });
  const ids = 'ids' in options ? 'given' : options.unlessLimited;
  const [template, shape] = templateFor({ ids, varying: new Set(varying) });
  const values = OPTIONALS.map((name) => {
    const { of, type } = OPTIONAL[name];
    if (!shape.varying.has(name)) return [name, of(effects[0]!)];
    const column = effects.map((effect) => of(effect));
    return [name, type === 'text' ? textArray(column as (string | null)[]) : column];
  });
  return filled(template, {
    ...(Object.fromEntries(values) as Record<Optional, unknown>),
    ids: 'ids' in options ? options.ids : undefined,
    repoIds: textArray(effects.map((effect) => effect.repoId)),
    payloads: textArray(effects.map((effect) => effect.payload)),
    told,
    limitedRepoIds:
      ids === 'given' ? undefined : textArray([...new Set(effects.map((effect) => effect.repoId))]),
  });
}

function templateFor(shape: Shape): [Template<Name>, Shape] {
  const key = `${shape.ids} ${[...shape.varying].join(' ')}`;
  const known = templates.get(key);
  if (known !== undefined) return [known, shape];
  if (templates.size >= SHAPES_MAX && shape.varying.size < OPTIONALS.length)
    return templateFor({ ...shape, varying: new Set(OPTIONALS) });
  const template = templateOf<Name>((value) => statement(shape, value));
  templates.set(key, template);
  return [template, shape];
}

function statement({ ids, varying }: Shape, value: (name: Name) => RawBuilder<unknown>): RawBuilder<unknown> {
  const repoIds = sql`${value('repoIds')}::text[]`;
  const limited = sql`select r.repo_id from ${table('repo')} r
                         where r.max_queued is not null and r.repo_id = any(${value('limitedRepoIds')}::text[])`;
  const drawn = {
    given: sql`${value('ids')}::bigint[]`,
    batch: sql`case when exists (${limited}) then null
                    else array(select ${nextEffectId} from generate_series(1, cardinality(${repoIds}))) end`,
    effect: sql`array(select case when repo_id = any(array(${limited})) then null else ${nextEffectId} end
                        from unnest(${repoIds}) as given (repo_id))`,
  };
  const arrays = [...varying].map((name) => sql`, ${value(name)}::${sql.raw(OPTIONAL[name].type)}[]`);
  const names = [...varying].map((name) => sql`, ${sql.ref(name)}`);
  const given = sql`unnest(drawn.ids, ${repoIds}, ${value('payloads')}::text[]${sql.join(arrays, sql``)})
           as given (effect_id, repo_id, payload${sql.join(names, sql``)})`;
  const column = (name: Optional) =>
    varying.has(name) ? sql.ref(`given.${name}`) : sql`${value(name)}::${sql.raw(OPTIONAL[name].type)}`;
  const at = sql`coalesce(${column('runAt')}, statement_timestamp() + ${column('delayMs')} * interval '1 ms')`;
  return sql`${PREPARED}
    with drawn as materialized (
      select ${drawn[ids]} as ids
    ), kept as (
      insert into ${table('effect_queue')}
             (effect_id, repo_id, name, payload, priority, max_attempts, run_at, dedup_key, concurrency_group, push_id)
      select effect_id, repo_id, ${column('name')}, payload, ${column('priority')}, ${column('maxAttempts')},
             case when ${at} > statement_timestamp() then ${at} end,
             ${column('dedupKey')}, ${column('concurrencyGroup')}, ${column('pushId')}
        from drawn, ${given}
       where effect_id is not null
    ), told as (
      select pg_notify(${sql.lit(CHANNELS.effects)}, min(effect_id) || ' ' || repo_id)
        from drawn, ${given}
       where effect_id is not null and (${at} > statement_timestamp()) is not true
         and ${isToBeTold(value('told'))}
       group by repo_id
    )
    select array_to_string(ids, ' ', '') as ids, (select count(pg_notify::text) from told) as told from drawn`;
}
