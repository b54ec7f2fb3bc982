import { pino } from 'pino';
import { printable } from './printable.ts';

/** One thing that happened, under a fixed name; everything else is fields. */
export interface LogEvent {
  /** snake_case, in the past tense where something was done: `push_committed`. */
  event: string;
  /** An error is written with its message, code and stack. */
  error?: unknown;
  [field: string]: unknown;
}

/** Where events go. Every service has one and passes it down. */
export interface Logger {
  debug(event: LogEvent): void;
  info(event: LogEvent): void;
  warn(event: LogEvent): void;
  error(event: LogEvent): void;
}

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent';

export interface LoggerOptions {
  /** Which service speaks; a field of every JSON line. */
  service: string;
  level?: LogLevel;
  /** JSON lines for machines, short lines for people; by default `SLUICE_LOG_FORMAT`, then text on a terminal and JSON otherwise. */
  format?: 'json' | 'text';
  /** Where lines go; by default standard output, written at once so that none is lost at exit. */
  write?: (line: string) => void;
}

/** A logger of events. Fields named like credentials are never written. */
export function createLogger(options: LoggerOptions): Logger {
  const write = options.write ?? standardOutput();
  const format = options.format ?? defaultFormat();
  return pino(
    {
      level: options.level ?? 'info',
      base: { service: options.service },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }), log: (fields) => writable(fields) },
      redact: { paths: SECRET_FIELDS.flatMap((name) => [name, `*.${name}`]), censor: '[secret]' },
    },
    { write: format === 'json' ? write : (line: string) => write(humanLine(line)) },
  );
}

const SECRET_FIELDS = ['authorization', 'password', 'secret', 'token'];

function defaultFormat(): 'json' | 'text' {
  const wanted = process.env['SLUICE_LOG_FORMAT'];
  if (wanted === 'json' || wanted === 'text') return wanted;
  return process.stdout.isTTY ? 'text' : 'json';
}

function standardOutput(): (line: string) => void {
  const destination = pino.destination({ fd: 1, sync: true });
  // A reader that goes away must not end the service.
  destination.on('error', () => {});
  return (line) => {
    destination.write(line);
  };
}

function writable(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, writableValue(value)]));
}

function writableValue(value: unknown): unknown {
  if (typeof value === 'bigint') return value.toString();
  if (Array.isArray(value)) return value.map(writableValue);
  if (!(value instanceof Error)) return value;
  const { stack, cause } = value;
  const code = 'code' in value ? value.code : undefined;
  return {
    message: messageOf(value),
    code,
    stack,
    ...(cause === undefined ? {} : { cause: writableValue(cause) }),
  };
}

/** An AggregateError, as of a host with two addresses that both refuse, has messages only inside. */
function messageOf(error: Error): string {
  if (error.message !== '' || !(error instanceof AggregateError)) return error.message;
  return error.errors.map((inner) => (inner instanceof Error ? inner.message : String(inner))).join('; ');
}

const HIDDEN_FROM_PEOPLE = new Set(['level', 'time', 'service', 'event', 'error']);

function humanLine(line: string): string {
  const entry = JSON.parse(line) as Record<string, unknown> & {
    level: string;
    time: string;
    event?: string;
    error?: unknown;
  };
  const fields = Object.entries(entry)
    .filter(([name]) => !HIDDEN_FROM_PEOPLE.has(name))
    .map(([name, value]) => ` ${name}=${humanValue(value)}`);
  const error = entry.error === undefined ? '' : ` error=${humanError(entry.error)}`;
  return `${entry.time.slice(11, 19)} ${entry.level.padEnd(5)} ${printable(entry.event ?? '')}${fields.join('')}${error}\n`;
}

function humanValue(value: unknown): string {
  return printable(typeof value === 'string' && /^[^\s"=]+$/u.test(value) ? value : JSON.stringify(value));
}

function humanError(error: unknown): string {
  const message = typeof error === 'object' && error !== null && 'message' in error ? error.message : error;
  return humanValue(message);
}
