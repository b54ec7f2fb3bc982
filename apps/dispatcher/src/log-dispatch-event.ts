import type { DispatchEvent } from '@sluice/dispatch';
import type { Logger } from '@sluice/service-kit';

/** Writes what the dispatcher reports as log events of the same names. */
export function logDispatchEvent(log: Logger, event: DispatchEvent): void {
  const { name, ...fields } = event;
  const renamed = Object.entries(fields).map(([field, value]) => [snakeCase(field), value]);
  log[levelOf(event)]({ ...Object.fromEntries(renamed), event: name });
}

function levelOf(event: DispatchEvent): 'debug' | 'info' | 'warn' {
  if ('error' in event && event.error !== undefined) return 'warn';
  if (event.name === 'dispatcher_declared_dead' || event.name === 'database_clock_leapt') return 'warn';
  if (event.name === 'dispatcher_stopped' && event.unclosed > 0) return 'warn';
  return event.name === 'effect_started' || event.name === 'listening' ? 'debug' : 'info';
}

/** Logs spell a thing as its column does: `repoId` is `repo_id`. */
function snakeCase(field: string): string {
  return field.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
