import { cancelEffects, rerunEffect } from '@sluice/queue-core/repo';
import { CommandError } from './command-error.ts';
import { findNamedEffect, readEffectId } from './find-named-effect.ts';
import { formatStanding } from './format-standing.ts';
import { printableLine, type Terminal } from './terminal.ts';
import { withDatabase } from './with-database.ts';

/** `sluice cancel`: takes an effect back that waits. */
export async function cancelEffect(terminal: Terminal, id: string, reason: string): Promise<void> {
  const wanted = readEffectId(id);
  const line = await withDatabase(terminal, async (db) => {
    const effect = await findNamedEffect(terminal, db, wanted);
    const cancelled = await cancelEffects(db, { repoId: effect.repoId, effectIds: [wanted], reason });
    if (cancelled.length === 1) return `cancelled effect ${wanted}, ${effect.name} of ${effect.repoId}`;
    const now = await findNamedEffect(terminal, db, wanted);
    throw new CommandError(
      `effect ${wanted} does not wait any more: ${formatStanding(now)}`,
      now.finishedAt === null
        ? `It ends by itself or at its time limit; sluice log ${wanted} --follow shows when.`
        : `sluice rerun ${wanted} runs it once more.`,
    );
  });
  terminal.stdout.write(`${printableLine(line)}\n`);
}

/** `sluice rerun`: enqueues a finished effect once more, whatever became of it. */
export async function rerun(terminal: Terminal, id: string): Promise<void> {
  const wanted = readEffectId(id);
  const line = await withDatabase(terminal, async (db) => {
    const effect = await findNamedEffect(terminal, db, wanted);
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
