import {
  boolean,
  durationMs,
  hostPort,
  integer,
  oneOf,
  readSettings,
  SettingsError,
  text,
  url,
  type HostPort,
  type LogLevel,
} from '@sluice/service-kit';

export type Settings = Readonly<{
  databaseUrl: string;
  pooler: 'session' | 'transaction';
  pusherUrl: string;
  token: string | undefined;
  slots: number;
  repoCap: number;
  leaseMs: number;
  beatMs: number;
  pollMs: number;
  graceMs: number;
  retentionDays: number;
  executor: 'auto' | 'bubblewrap' | 'host';
  readOnlyPaths: readonly string[];
  workDir: string;
  healthListen: HostPort | undefined;
  isLocal: boolean;
  logLevel: LogLevel;
}>;

/** Reads the dispatcher's settings, or throws one error that lists every wrong one. */
export function readDispatcherSettings(env: Readonly<Record<string, string | undefined>>): Settings {
  const settings = readSettings<Settings>(
    {
      databaseUrl: {
        name: 'DATABASE_URL',
        parse: url(['postgres:', 'postgresql:']),
        example: 'postgres://sluice:password@127.0.0.1:5432/sluice',
        isSecret: true,
      },
      pooler: {
        name: 'SLUICE_POOLER',
        parse: oneOf('session', 'transaction'),
        default: 'session',
        example: 'transaction',
      },
      pusherUrl: {
        name: 'SLUICE_PUSHER_URL',
        parse: bareUrl,
        default: 'http://127.0.0.1:7420',
        example: 'http://127.0.0.1:7420',
        isSecret: true,
      },
      token: {
        name: 'SLUICE_TOKEN',
        parse: text(),
        default: undefined,
        example: 'a long random text',
        isSecret: true,
      },
      slots: { name: 'SLUICE_SLOTS', parse: integer({ min: 1, max: 10_000 }), default: 8, example: '8' },
      repoCap: {
        name: 'SLUICE_REPO_CAP',
        parse: integer({ min: 1, max: 100_000 }),
        default: 4,
        example: '4',
      },
      leaseMs: {
        name: 'SLUICE_LEASE_MS',
        parse: durationMs({ min: 1_000, max: 3_600_000 }),
        default: 20_000,
        example: '20000',
      },
      beatMs: {
        name: 'SLUICE_BEAT_MS',
        parse: durationMs({ min: 100, max: 1_800_000 }),
        default: 5_000,
        example: '5000',
      },
      pollMs: {
        name: 'SLUICE_POLL_MS',
        parse: durationMs({ min: 10, max: 600_000 }),
        default: 2_000,
        example: '2000',
      },
      graceMs: {
        name: 'SLUICE_GRACE_MS',
        parse: durationMs({ max: 86_400_000 }),
        default: 10_000,
        example: '10000',
      },
      retentionDays: {
        name: 'SLUICE_RETENTION_DAYS',
        parse: integer({ min: 1, max: 36_500 }),
        default: 30,
        example: '30',
      },
      executor: {
        name: 'SLUICE_EXECUTOR',
        parse: oneOf('auto', 'bubblewrap', 'host'),
        default: 'auto',
        example: 'auto',
      },
      readOnlyPaths: {
        name: 'SLUICE_SANDBOX_PATHS',
        parse: absolutePaths,
        default: [],
        example: '/opt/toolchains:/srv/cache',
      },
      workDir: {
        name: 'SLUICE_WORK_DIR',
        parse: text(),
        default: '.sluice/work',
        example: '/var/lib/sluice/work',
      },
      healthListen: {
        name: 'SLUICE_HEALTH_LISTEN',
        parse: hostPort(),
        default: undefined,
        example: '127.0.0.1:7421',
      },
      isLocal: { name: 'SLUICE_LOCAL', parse: boolean(), default: false, example: '1' },
      logLevel: {
        name: 'SLUICE_LOG_LEVEL',
        parse: oneOf('debug', 'info', 'warn', 'error', 'silent'),
        default: 'info',
        example: 'debug',
      },
    },
    env,
  );
  if (settings.beatMs * 2 > settings.leaseMs) {
    const message = `expected at most half of SLUICE_LEASE_MS (${settings.leaseMs}), so that one late heartbeat does not cost the lease, got ${settings.beatMs}; for example SLUICE_BEAT_MS=5000`;
    throw new SettingsError([{ name: 'SLUICE_BEAT_MS', message }]);
  }
  return settings;
}

/** The token has a setting of its own: a URL is written into logs and command lines. */
function bareUrl(value: string): { value: string } | { expected: string } {
  const parsed = url(['http:', 'https:'])(value);
  const found = 'value' in parsed ? new URL(parsed.value) : undefined;
  const isBare =
    found !== undefined &&
    found.username === '' &&
    found.password === '' &&
    found.search === '' &&
    found.hash === '';
  return isBare
    ? parsed
    : { expected: 'an http:// or https:// URL without a password (SLUICE_TOKEN is for that), "?" and "#"' };
}

function absolutePaths(value: string): { value: readonly string[] } | { expected: string } {
  const paths = value.split(':');
  return paths.every((path) => path.startsWith('/'))
    ? { value: paths }
    : { expected: 'absolute paths with ":" between them' };
}
