import type { Contender, ContenderName } from './contender.ts';

/** Loads only the one that is asked for, so that no process carries the libraries of another. */
export async function contenderNamed(name: ContenderName): Promise<Contender> {
  switch (name) {
    case 'sluice':
      return (await import('./sluice.ts')).sluiceContender;
    case 'graphile-worker':
      return (await import('./graphile-worker.ts')).graphileWorker;
    case 'pg-boss':
      return (await import('./pg-boss.ts')).pgBoss;
    case 'document':
      return (await import('./document.ts')).documentContender;
  }
}
