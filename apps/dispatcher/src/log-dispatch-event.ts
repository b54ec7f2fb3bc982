import type { DispatchEvent } from '@sluice/dispatch';
import type { Logger } from '@sluice/service-kit';

/** Writes what the dispatcher reports as log events of the same names. */
export function logDispatchEvent(log: Logger, event: DispatchEvent): void {
  const { name, ...fields } = event;
  log[levelOf(event)]({ event: name, ...fields });
}

function levelOf(event: DispatchEvent): 'debug' | 'info' | 'warn' {
  if ('error' in event && event.error !== undefined) return 'warn';
  if (event.name === 'dispatcher_declared_dead') return 'warn';
  return event.name === 'effect_started' || event.name === 'listening' ? 'debug' : 'info';
}
