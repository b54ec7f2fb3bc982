import { sql } from 'kysely';
import type pg from 'pg';

/**
 * Put in front of a statement, or behind its first SELECT, that is sent often and whose text is always the same: pools of ours then prepare it, so
 * that each connection parses it once and, where a plan for all values is as good, plans it once. Elsewhere it is a
 * comment. Measured for one enqueue: 275 µs of the server's time without, 90 µs with it.
 */
export const PREPARED = sql.raw('/* prepared */ ');

const MARK = /^(?:select )?\/\* prepared \*\/ /;
/** Texts are fixed; if one ever was not, it would fill the memory of every connection. */
const NAMES_MAX = 200;
const names = new Map<string, string>();

/** Makes the client prepare the statements that are marked. */
export function prepareMarked(client: pg.ClientBase): void {
  const query = client.query.bind(client) as (...args: unknown[]) => unknown;
  const preparing = (text: unknown, ...rest: unknown[]): unknown => {
    const name = typeof text === 'string' && MARK.test(text) ? nameOf(text) : undefined;
    if (name === undefined) return query(text, ...rest);
    const [values, ...others] = rest;
    return query({ name, text, values }, ...others);
  };
  client.query = preparing as typeof client.query;
}

function nameOf(text: string): string | undefined {
  const known = names.get(text);
  if (known !== undefined || names.size >= NAMES_MAX) return known;
  const name = `sluice_${names.size + 1}`;
  names.set(text, name);
  return name;
}
