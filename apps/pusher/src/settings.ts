import {
  durationMs,
  hostPort,
  integer,
  oneOf,
  readSettings,
  text,
  url,
  type HostPort,
  type LogLevel,
} from '@sluice/service-kit';

export type Settings = Readonly<{
  databaseUrl: string;
  pooler: 'session' | 'transaction';
  listen: HostPort;
  dataDir: string;
  token: string | undefined;
  accounts: 'off' | 'required';
  keyFile: string | undefined;
  objectFormat: 'sha1' | 'sha256';
  reposMax: number;
  refsPerPushMax: number;
  refsPerRepoMax: number;
  pushBytesMax: number;
  repoBytesMax: number | undefined;
  uploadMs: number;
  idleMs: number;
  gitProcesses: number;
  gitMemoryBytesMax: number;
  addressPerMinute: number;
  addressAtOnce: number;
  addressConnections: number;
  accountPerMinute: number;
  accountAtOnce: number;
  repoPerMinute: number;
  repoAtOnce: number;
  proxyHops: number;
  effectsPerPushMax: number;
  maintenanceMs: number;
  keepDays: number | undefined;
  databaseWaitMs: number;
  graceMs: number;
  logLevel: LogLevel;
}>;

/** Reads the pusher's settings, or throws one error that lists every wrong one. */
export function readPusherSettings(env: Readonly<Record<string, string | undefined>>): Settings {
  return readSettings<Settings>(
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
      listen: {
        name: 'SLUICE_LISTEN',
        parse: hostPort(),
        default: { host: '127.0.0.1', port: 7420 },
        example: '127.0.0.1:7420',
      },
      dataDir: { name: 'SLUICE_DATA_DIR', parse: text(), default: '.sluice', example: '/var/lib/sluice' },
      token: {
        name: 'SLUICE_TOKEN',
        parse: text(),
        default: undefined,
        example: 'a long random text',
        isSecret: true,
      },
      accounts: {
        name: 'SLUICE_ACCOUNTS',
        parse: oneOf('off', 'required'),
        default: 'off',
        example: 'required',
      },
      keyFile: {
        name: 'SLUICE_KEY_FILE',
        parse: text(),
        default: undefined,
        example: '/var/lib/sluice/server-key.pem',
      },
      objectFormat: {
        name: 'SLUICE_OBJECT_FORMAT',
        parse: oneOf('sha1', 'sha256'),
        default: 'sha1',
        example: 'sha256',
      },
      reposMax: {
        name: 'SLUICE_REPOS',
        parse: integer({ min: 0 }),
        default: 100_000,
        example: '100000',
      },
      refsPerPushMax: {
        name: 'SLUICE_REFS_PER_PUSH',
        parse: integer({ min: 1, max: 1_000_000 }),
        default: 20_000,
        example: '20000',
      },
      refsPerRepoMax: {
        name: 'SLUICE_REFS_PER_REPO',
        parse: integer({ min: 1, max: 10_000_000 }),
        default: 100_000,
        example: '100000',
      },
      pushBytesMax: {
        name: 'SLUICE_PUSH_BYTES',
        parse: integer({ min: 1, max: Number.MAX_SAFE_INTEGER }),
        default: 8 * 1024 ** 3,
        example: '8589934592',
      },
      repoBytesMax: {
        name: 'SLUICE_REPO_BYTES',
        parse: integer({ min: 1, max: Number.MAX_SAFE_INTEGER }),
        default: undefined,
        example: '10737418240',
      },
      uploadMs: {
        name: 'SLUICE_UPLOAD_MS',
        parse: durationMs({ min: 1000 }),
        default: 60 * 60 * 1000,
        example: '3600000',
      },
      idleMs: { name: 'SLUICE_IDLE_MS', parse: durationMs({ min: 100 }), default: 60_000, example: '60000' },
      gitProcesses: {
        name: 'SLUICE_GIT_PROCESSES',
        parse: integer({ min: 3, max: 1000 }),
        default: 16,
        example: '16',
      },
      gitMemoryBytesMax: {
        name: 'SLUICE_GIT_MEMORY_BYTES',
        parse: integer({ min: 64 * 1024 ** 2, max: Number.MAX_SAFE_INTEGER }),
        default: 2 * 1024 ** 3,
        example: '2147483648',
      },
      addressPerMinute: {
        name: 'SLUICE_ADDRESS_PER_MINUTE',
        parse: integer({ min: 1, max: 1_000_000 }),
        default: 3000,
        example: '3000',
      },
      addressAtOnce: {
        name: 'SLUICE_ADDRESS_AT_ONCE',
        parse: integer({ min: 1, max: 1_000_000 }),
        default: 128,
        example: '128',
      },
      addressConnections: {
        name: 'SLUICE_ADDRESS_CONNECTIONS',
        parse: integer({ min: 1, max: 1_000_000 }),
        default: 256,
        example: '256',
      },
      accountPerMinute: {
        name: 'SLUICE_ACCOUNT_PER_MINUTE',
        parse: integer({ min: 1, max: 1_000_000 }),
        default: 3000,
        example: '3000',
      },
      accountAtOnce: {
        name: 'SLUICE_ACCOUNT_AT_ONCE',
        parse: integer({ min: 1, max: 1_000_000 }),
        default: 64,
        example: '64',
      },
      repoPerMinute: {
        name: 'SLUICE_REPO_PER_MINUTE',
        parse: integer({ min: 1, max: 1_000_000 }),
        default: 6000,
        example: '6000',
      },
      repoAtOnce: {
        name: 'SLUICE_REPO_AT_ONCE',
        parse: integer({ min: 1, max: 1_000_000 }),
        default: 128,
        example: '128',
      },
      proxyHops: {
        name: 'SLUICE_PROXY_HOPS',
        parse: integer({ min: 0, max: 10 }),
        default: 0,
        example: '1',
      },
      effectsPerPushMax: {
        name: 'SLUICE_EFFECTS_PER_PUSH',
        parse: integer({ min: 1, max: 100_000 }),
        default: 1000,
        example: '1000',
      },
      maintenanceMs: {
        name: 'SLUICE_MAINTENANCE_MS',
        parse: durationMs({ min: 0 }),
        default: 10 * 60 * 1000,
        example: '600000',
      },
      keepDays: {
        name: 'SLUICE_KEEP_DAYS',
        parse: integer({ min: 1, max: 36_500 }),
        default: undefined,
        example: '90',
      },
      databaseWaitMs: {
        name: 'SLUICE_DATABASE_WAIT_MS',
        parse: durationMs({ min: 0 }),
        default: 20_000,
        example: '20000',
      },
      graceMs: {
        name: 'SLUICE_GRACE_MS',
        parse: durationMs({ min: 0 }),
        default: 10_000,
        example: '10000',
      },
      logLevel: {
        name: 'SLUICE_LOG_LEVEL',
        parse: oneOf('debug', 'info', 'warn', 'error', 'silent'),
        default: 'info',
        example: 'debug',
      },
    },
    env,
  );
}
