import { sql, type RawBuilder } from 'kysely';

/**
 * A time as a statement returns it, for {@link dateOf}: milliseconds since 1970, as text. What a `timestamptz` arrives as
 * is for the caller's pool to say (a Date, a string, an object of some library); a text arrives as it is. For the same
 * reason, statements return a `bigint` and an array as text, and bytes as hex digits.
 */
export function instant(at: RawBuilder<unknown>): RawBuilder<string> {
  return sql<string>`(extract(epoch from ${at}) * 1000)::text`;
}

export function dateOf(instant: string): Date;
export function dateOf(instant: string | null): Date | null;
export function dateOf(instant: string | null): Date | null {
  return instant === null ? null : new Date(Number(instant));
}
