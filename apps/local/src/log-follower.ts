import { closeSync, openSync, readSync } from 'node:fs';
import { printable } from '@sluice/service-kit';

/** Texts that a terminal does not obey. */
export interface ServiceEvent {
  service: string;
  level: string;
  event: string;
  message: string;
}

const CHUNK_BYTES = 64 * 1024;

/** Reads what the services have written since the last look, and keeps the end for error messages. */
export class LogFollower {
  readonly #file: number;
  readonly #buffer = Buffer.alloc(CHUNK_BYTES);
  #rest = '';
  #tail: string[] = [];

  constructor(path: string) {
    this.#file = openSync(path, 'r');
  }

  /** New events, oldest first; lines that are not events are skipped. */
  read(): ServiceEvent[] {
    const events: ServiceEvent[] = [];
    for (;;) {
      const length = readSync(this.#file, this.#buffer, 0, CHUNK_BYTES, null);
      if (length === 0) return events;
      const lines = (this.#rest + this.#buffer.toString('utf8', 0, length)).split('\n');
      this.#rest = (lines.pop() ?? '').slice(-CHUNK_BYTES);
      this.#tail = [...this.#tail, ...lines].slice(-TAIL_LINES);
      for (const line of lines) {
        const event = parseEvent(line);
        if (event !== undefined) events.push(event);
      }
    }
  }

  /** The last lines, for a message about what went wrong; what is only about the machinery is left out. */
  tail(): string {
    const told = this.#tail.filter((line) => !MACHINERY.test(line) && !isRoutine(line));
    return (told.length > 0 ? told : this.#tail).map(printable).join('\n');
  }

  [Symbol.dispose](): void {
    closeSync(this.#file);
  }
}

const TAIL_LINES = 30;
/** Lines of turbo and pnpm that say nothing about why a service ended. */
const MACHINERY =
  /^\s*$|:start: (\$ node |cache bypass|\[ELIFECYCLE\])|^\s*(Tasks|Cached|Time|Failed):| ERROR  (run failed: )?command | WARNING  Circular| • |shutting down\.\.\.$/;

function isRoutine(line: string): boolean {
  const level = parseEvent(line)?.level;
  return level === 'info' || level === 'debug';
}

/** Turbo puts `@sluice/pusher:start: ` in front of each line. */
function parseEvent(line: string): ServiceEvent | undefined {
  const start = line.indexOf('{');
  if (start === -1) return undefined;
  try {
    const fields = JSON.parse(line.slice(start)) as Record<string, unknown>;
    const { service, level, event, message, error } = fields;
    if (typeof service !== 'string' || typeof level !== 'string' || typeof event !== 'string')
      return undefined;
    const detail = message ?? (error as { message?: unknown } | undefined)?.message ?? '';
    return {
      service: printable(service),
      level: printable(level),
      event: printable(event),
      message: printable(typeof detail === 'string' ? detail : JSON.stringify(detail)),
    };
  } catch {
    return undefined;
  }
}
