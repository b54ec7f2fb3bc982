import { SCHEMA } from '@sluice/db';
import { sql, type RawBuilder } from 'kysely';

/** A table that is partitioned by day, and the column that says which. */
export interface DailyTable {
  name: 'effect_history' | 'effect_log';
  at: 'finished_at' | 'logged_at';
}

export const DAILY_TABLES: readonly DailyTable[] = [
  { name: 'effect_history', at: 'finished_at' },
  { name: 'effect_log', at: 'logged_at' },
];

/** Name of the partition for a day given as `2026-01-31`, always a day of UTC: `effect_log_20260131`. */
export function partitionName(parent: DailyTable, day: string): string {
  return `${parent.name}_${day.replaceAll('-', '')}`;
}

/** The day of a partition; undefined for the default partition and for tables that are not ours. */
export function partitionDay(parent: DailyTable, partition: string): string | undefined {
  const match = /^_(\d{4})(\d{2})(\d{2})$/.exec(partition.slice(parent.name.length));
  if (match === null || !partition.startsWith(parent.name)) return undefined;
  return `${match[1]}-${match[2]}-${match[3]}`;
}

/** The day that many days later, or earlier. */
export function addDays(day: string, days: number): string {
  return new Date(Date.parse(`${day}T00:00:00Z`) + days * 86_400_000).toISOString().slice(0, 10);
}

export function daysBetween(day: string, later: string): number {
  return (Date.parse(`${later}T00:00:00Z`) - Date.parse(`${day}T00:00:00Z`)) / 86_400_000;
}

/** First instant of a day, as a literal: partition bounds take no parameters. */
export function dayStart(day: string): RawBuilder<unknown> {
  return sql.lit(`${day} 00:00:00+00`);
}

export function qualified(name: string): RawBuilder<unknown> {
  return sql.id(SCHEMA, name);
}
