import { setTimeout as delay } from 'node:timers/promises';
import type { DB } from '@sluice/db';
import {
  finishedEffects,
  queueByRepo,
  queueTotals,
  runningEffects,
  waitingEffects,
} from '@sluice/queue-core/dispatcher';
import type { Kysely } from 'kysely';
import { CommandError } from './command-error.ts';
import { formatQueue } from './format-queue.ts';
import type { Terminal } from './terminal.ts';
import { withDatabase } from './with-database.ts';

export interface QueueOptions {
  readonly repo?: string;
  /** Most rows of each table. */
  readonly limit: number;
  readonly watch?: true;
}

const WATCH_EVERY_MS = 1000;
const CLEAR_SCREEN = '\u001b[H\u001b[2J';

/** `sluice queue`: shows it once, or again and again until the person interrupts it. */
export async function showQueue(terminal: Terminal, options: QueueOptions): Promise<void> {
  const defaultCap = readDefaultCap(terminal.env);
  await withDatabase(terminal, async (db) => {
    let shown = '';
    for (;;) {
      const text = await readQueue(db, options, defaultCap);
      if (text !== shown) terminal.stdout.write(frame(terminal, text, shown === ''));
      shown = text;
      if (options.watch !== true || terminal.signal.aborted) return;
      await delay(WATCH_EVERY_MS, undefined, { signal: terminal.signal }).catch(() => {});
      if (terminal.signal.aborted) return;
    }
  });
}

async function readQueue(
  db: Kysely<DB>,
  { repo: repoId, limit }: QueueOptions,
  defaultCap: number,
): Promise<string> {
  return formatQueue({
    repoId,
    repos: await queueByRepo(db, { repoId, limit }),
    totals: await queueTotals(db),
    running: await runningEffects(db, { repoId, limit }),
    waiting: await waitingEffects(db, { repoId, limit, defaultCap }),
    finished: await finishedEffects(db, { repoId, limit }),
  });
}

/** A terminal shows the latest; a file or pipe keeps every change. */
function frame(terminal: Terminal, text: string, isFirst: boolean): string {
  if (isFirst) return text;
  return terminal.stdout.isTTY === true ? CLEAR_SCREEN + text : `\n${text}`;
}

/** The cap of a repository without its own, as the dispatcher reads it. */
export function readDefaultCap(env: Terminal['env']): number {
  const text = env['SLUICE_REPO_CAP'] ?? '';
  if (text === '') return 4;
  if (/^[1-9]\d{0,5}$/.test(text)) return Number(text);
  throw new CommandError(
    `SLUICE_REPO_CAP: expected a whole number, got ${JSON.stringify(text.slice(0, 60))}`,
    'Set it as for the dispatcher, such as SLUICE_REPO_CAP=4, or leave it unset.',
  );
}
