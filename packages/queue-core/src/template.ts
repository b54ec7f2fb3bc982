import type { DB } from '@sluice/db';
import {
  CompiledQuery,
  DummyDriver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  sql,
  type RawBuilder,
} from 'kysely';

/** A statement whose text is made once: the hot ones are sent far more often than their text changes. */
export interface Template<Name extends string> {
  readonly text: string;
  /** The value that each parameter takes. */
  readonly order: readonly Name[];
}

/** Compiles what `build` writes with named values; a value that is named twice is sent once. */
export function templateOf<Name extends string>(
  build: (value: (name: Name) => RawBuilder<unknown>) => RawBuilder<unknown>,
): Template<Name> {
  const { sql: text, parameters } = build((name) => sql`${name}`).compile(COMPILER);
  const order = [...new Set(parameters as Name[])];
  return {
    text: text.replaceAll(/\$(\d+)/g, (_, nth: string) => {
      const name = parameters[Number(nth) - 1] as Name;
      return `$${order.indexOf(name) + 1}`;
    }),
    order,
  };
}

/** Makes a template when it is first needed. */
export function once<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => (made ??= make());
}

export function filled<Row, Name extends string>(
  template: Template<Name>,
  values: Readonly<Record<Name, unknown>>,
): CompiledQuery<Row> {
  return CompiledQuery.raw(
    template.text,
    template.order.map((name) => values[name]),
  ) as CompiledQuery<Row>;
}

/** Knows the dialect, and no database. */
const COMPILER = new Kysely<DB>({
  dialect: {
    createAdapter: () => new PostgresAdapter(),
    createDriver: () => new DummyDriver(),
    createIntrospector: (db) => new PostgresIntrospector(db),
    createQueryCompiler: () => new PostgresQueryCompiler(),
  },
});
