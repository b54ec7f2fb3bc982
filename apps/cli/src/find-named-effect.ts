import { SluiceError, type DB } from '@sluice/db';
import { effectId, findEffect, type EffectId, type FoundEffect } from '@sluice/queue-core/dispatcher';
import type { Kysely } from 'kysely';
import { CommandError } from './command-error.ts';
import { readDefaultCap } from './queue-command.ts';
import type { Terminal } from './terminal.ts';

/** The number of an effect, as a person gives it. */
export function readEffectId(text: string): EffectId {
  try {
    return effectId(text);
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error;
    throw new CommandError(
      `expected the number of an effect, got ${JSON.stringify(text.slice(0, 60))}`,
      'The output of git push has it, after "effect"; sluice queue shows it as well.',
    );
  }
}

/** The effect that a command line names, or an error that says where ids are shown. */
export async function findNamedEffect(
  terminal: Terminal,
  db: Kysely<DB>,
  wanted: EffectId,
): Promise<FoundEffect> {
  const found = await findEffect(db, wanted, { defaultCap: readDefaultCap(terminal.env) });
  if (found !== undefined) return found;
  throw new CommandError(
    `there is no effect ${wanted}`,
    'sluice queue shows their ids; finished ones are kept for SLUICE_RETENTION_DAYS.',
  );
}
