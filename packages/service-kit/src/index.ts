export {
  createLogger,
  type LogEvent,
  type Logger,
  type LoggerOptions,
  type LogLevel,
} from './create-logger.ts';
export {
  createRegistry,
  healthHandler,
  metricsHandler,
  type HealthOptions,
  type HttpHandler,
} from './health.ts';
export { listenOn } from './listen-on.ts';
export { makeFolder } from './make-folder.ts';
export { onShutdown, type ShutdownOptions } from './on-shutdown.ts';
export { printable } from './printable.ts';
export { readSettings, type Setting } from './read-settings.ts';
export {
  boolean,
  durationMs,
  hostPort,
  integer,
  isLoopback,
  oneOf,
  text,
  url,
  type HostPort,
  type Parser,
} from './setting-parsers.ts';
export { SettingsError, type SettingProblem } from './settings-error.ts';
export { startHealthServer, type HealthServer } from './start-health-server.ts';
export { untilAnswered, type RetryOptions } from './until-answered.ts';
export { Counter, Gauge, Histogram, type Registry } from 'prom-client';
