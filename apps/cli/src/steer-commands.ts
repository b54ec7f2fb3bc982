import { effectId } from '@sluice/queue-core/dispatcher';
import { cancelEffects, rerunEffect } from '@sluice/queue-core/repo';
import { CommandError } from './command-error.ts';
import { findNamedEffect } from './find-named-effect.ts';
import { printableLine, type Terminal } from './terminal.ts';
import { withDatabase } from './with-database.ts';

/** `sluice cancel`: takes an effect back that waits. */
export async function cancelEffect(terminal: Terminal, id: string, reason: string): Promise<void> {
  const wanted = effectId(id);
  const line = await withDatabase(terminal, async (db) => {
    const effect = await findNamedEffect(terminal, db, id);
    const cancelled = await cancelEffects(db, { repoId: effect.repoId, effectIds: [wanted], reason });
    if (cancelled.length === 1) return `cancelled effect ${wanted}, ${effect.name} of ${effect.repoId}`;
    throw new CommandError(
      `effect ${wanted} does not wait any more`,
      `A running effect ends by itself or at its time limit; sluice log ${wanted} shows how it stands.`,
    );
  });
  terminal.stdout.write(`${printableLine(line)}\n`);
}

/** `sluice rerun`: enqueues a finished effect once more, whatever became of it. */
export async function rerun(terminal: Terminal, id: string): Promise<void> {
  const wanted = effectId(id);
  const line = await withDatabase(terminal, async (db) => {
    const effect = await findNamedEffect(terminal, db, id);
    const next = await rerunEffect(db, { repoId: effect.repoId, effectId: wanted });
    if (next !== undefined)
      return `effect ${wanted} runs again as effect ${next}, ${effect.name} of ${effect.repoId}`;
    throw new CommandError(
      `effect ${wanted} has not finished`,
      `Wait for it: sluice log ${wanted} --follow. Or take it back while it waits: sluice cancel ${wanted}.`,
    );
  });
  terminal.stdout.write(`${printableLine(line)}\n`);
}
