import { setTimeout as delay } from 'node:timers/promises';
import type { DB } from '@sluice/db';
import { readLog, type EffectId } from '@sluice/queue-core/dispatcher';
import type { Kysely } from 'kysely';
import { findNamedEffect, readEffectId } from './find-named-effect.ts';
import { formatStanding } from './format-standing.ts';
import { LogPrinter } from './log-printer.ts';
import { printableLine, type Terminal } from './terminal.ts';
import { withDatabase } from './with-database.ts';

const FOLLOW_EVERY_MS = 500;

type Cursor = { claimNumber: bigint; seq: number } | undefined;

/**
 * `sluice log`: an effect's output on standard output, and on standard error how the effect stands. With `follow`, until
 * it has finished.
 */
export async function showLog(terminal: Terminal, id: string, { follow }: { follow?: true }): Promise<void> {
  const wanted = readEffectId(id);
  const printer = new LogPrinter(terminal.stdout);
  const effect = await withDatabase(terminal, async (db) => {
    let cursor: Cursor;
    for (;;) {
      // Looked up before its output is read: of an effect that had finished by then, all output is there.
      const found = await findNamedEffect(terminal, db, wanted);
      cursor = await printNew(db, wanted, cursor, printer);
      if (follow !== true || found.finishedAt !== null || terminal.signal.aborted) return found;
      await delay(FOLLOW_EVERY_MS, undefined, { signal: terminal.signal }).catch(() => {});
    }
  });
  printer.end();
  terminal.stderr.write(
    `effect ${wanted}, ${printableLine(`${effect.name} of ${effect.repoId}: ${formatStanding(effect)}`)}\n`,
  );
}

async function printNew(
  db: Kysely<DB>,
  wanted: EffectId,
  after: Cursor,
  printer: LogPrinter,
): Promise<Cursor> {
  let cursor = after;
  for (;;) {
    const chunks = await readLog(db, { effectId: wanted, after: cursor, limit: 100 });
    for (const chunk of chunks) printer.print(chunk);
    const last = chunks.at(-1);
    if (last === undefined) return cursor;
    cursor = { claimNumber: last.claimNumber, seq: last.seq };
  }
}
