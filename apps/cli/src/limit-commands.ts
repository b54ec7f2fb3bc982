import type { DB } from '@sluice/db';
import { queueTotals } from '@sluice/queue-core/dispatcher';
import type { Kysely } from 'kysely';
import { CommandError } from './command-error.ts';
import type { Terminal } from './terminal.ts';
import { withDatabase } from './with-database.ts';

/** `sluice limit show`: the limits of the whole queue, and how much of them is used. */
export async function showLimit(terminal: Terminal): Promise<void> {
  terminal.stdout.write(await withDatabase(terminal, describeLimit));
}

/** `sluice limit set`: dispatchers keep to it from their next claim on; what runs beyond it runs to its end. */
export async function setLimit(
  terminal: Terminal,
  { globalCap }: { globalCap?: number | null },
): Promise<void> {
  if (globalCap === undefined) {
    throw new CommandError('expected something to set, got no option', 'Give --global-cap.');
  }
  const text = await withDatabase(terminal, async (db) => {
    await db.updateTable('queue_limit').set({ global_cap: globalCap }).execute();
    return await describeLimit(db);
  });
  terminal.stdout.write(text);
}

async function describeLimit(db: Kysely<DB>): Promise<string> {
  const { globalCap, running, repos } = await queueTotals(db);
  const facts: [string, string][] = [
    ['global cap', globalCap === null ? 'no limit' : String(globalCap)],
    ['running', String(running)],
    ['repositories with work', String(repos)],
  ];
  return facts.map(([name, value]) => `${name.padEnd(22)} ${value}\n`).join('');
}
