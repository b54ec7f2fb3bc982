import type { DB } from '@sluice/db';
import { effectId, findEffect, type FoundEffect } from '@sluice/queue-core/dispatcher';
import type { Kysely } from 'kysely';
import { CommandError } from './command-error.ts';
import { readDefaultCap } from './queue-command.ts';
import type { Terminal } from './terminal.ts';

/** The effect that a command line names, or an error that says where ids are shown. */
export async function findNamedEffect(terminal: Terminal, db: Kysely<DB>, id: string): Promise<FoundEffect> {
  const wanted = effectId(id);
  const found = await findEffect(db, wanted, { defaultCap: readDefaultCap(terminal.env) });
  if (found !== undefined) return found;
  throw new CommandError(
    `there is no effect ${wanted}`,
    'sluice queue shows their ids; finished ones are kept for SLUICE_RETENTION_DAYS.',
  );
}
