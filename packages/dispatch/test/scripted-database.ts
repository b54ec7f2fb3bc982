import type { DB } from '@sluice/db';
import {
  DummyDriver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type CompiledQuery,
  type DatabaseConnection,
} from 'kysely';

type Answer = (statement: CompiledQuery) => Promise<unknown[]>;

/** A database without a server: each statement has the rows that `answer` gives for it, in no more than microtasks. */
export function scriptedDatabase(answer: Answer): Kysely<DB> {
  return new Kysely<DB>({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () => new ScriptedDriver(answer),
      createIntrospector: (db) => new PostgresIntrospector(db),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
  });
}

class ScriptedDriver extends DummyDriver {
  readonly #answer: Answer;

  constructor(answer: Answer) {
    super();
    this.#answer = answer;
  }

  override acquireConnection(): Promise<DatabaseConnection> {
    return Promise.resolve({
      executeQuery: async <R>(statement: CompiledQuery) => ({ rows: (await this.#answer(statement)) as R[] }),
      streamQuery: () => {
        throw new Error('nothing here reads a stream');
      },
    });
  }
}
