import { describe, expect, it } from 'vitest';
import { readSettings } from './read-settings.ts';
import { boolean, durationMs, hostPort, integer, isLoopback, oneOf, text, url } from './setting-parsers.ts';
import { SettingsError } from './settings-error.ts';

const SETTINGS = {
  database: {
    name: 'DATABASE_URL',
    parse: url(['postgres:', 'postgresql:']),
    example: 'postgres://localhost/sluice',
    isSecret: true,
  },
  listen: {
    name: 'SLUICE_LISTEN',
    parse: hostPort(),
    default: { host: '127.0.0.1', port: 7420 },
    example: '127.0.0.1:7420',
  },
  slots: { name: 'SLUICE_SLOTS', parse: integer({ min: 1, max: 64 }), default: 8, example: '8' },
  leaseMs: { name: 'SLUICE_LEASE_MS', parse: durationMs({ min: 1000 }), default: 20_000, example: '20000' },
  executor: { name: 'SLUICE_EXECUTOR', parse: oneOf('auto', 'host'), default: 'auto', example: 'auto' },
  token: { name: 'SLUICE_TOKEN', parse: text(), default: undefined, example: 'long-random-text' },
  isLocal: { name: 'SLUICE_LOCAL', parse: boolean(), default: false, example: 'true' },
} as const;

function problemsOf(env: Record<string, string>): SettingsError {
  try {
    readSettings(SETTINGS, env);
  } catch (error) {
    if (error instanceof SettingsError) return error;
    throw error;
  }
  throw new Error('expected readSettings to refuse');
}

describe('readSettings', () => {
  it('reads given values and falls back to defaults; empty text counts as unset', () => {
    const settings = readSettings(SETTINGS, {
      DATABASE_URL: 'postgres://localhost/x',
      SLUICE_SLOTS: '3',
      SLUICE_TOKEN: '',
      SLUICE_LOCAL: 'yes',
    });
    expect(settings).toEqual({
      database: 'postgres://localhost/x',
      listen: { host: '127.0.0.1', port: 7420 },
      slots: 3,
      leaseMs: 20_000,
      executor: 'auto',
      token: undefined,
      isLocal: true,
    });
  });

  it('reports every wrong setting at once, with what it expected and an example', () => {
    const error = problemsOf({
      SLUICE_SLOTS: 'many',
      SLUICE_LEASE_MS: '20s',
      SLUICE_EXECUTOR: 'vm',
      SLUICE_LISTEN: '7420',
    });
    expect(error.code).toBe('invalid_settings');
    expect(error.problems.map((problem) => problem.name)).toEqual([
      'DATABASE_URL',
      'SLUICE_LISTEN',
      'SLUICE_SLOTS',
      'SLUICE_LEASE_MS',
      'SLUICE_EXECUTOR',
    ]);
    expect(error.message).toContain(
      'SLUICE_SLOTS: expected a whole number from 1 to 64, got "many"; for example SLUICE_SLOTS=8',
    );
    expect(error.message).toContain('whole milliseconds without a unit');
    expect(error.message).toContain('DATABASE_URL: is required');
  });

  it('never shows the value of a secret', () => {
    expect(problemsOf({ DATABASE_URL: 'mysql://u:hunter2@h/d' }).message).not.toContain('hunter2');
  });
});

describe('parsers', () => {
  it.each([
    [hostPort(), '[::1]:80', { value: { host: '::1', port: 80 } }],
    [hostPort(), '0.0.0.0:0', { value: { host: '0.0.0.0', port: 0 } }],
    [hostPort(), 'a:70000', { expected: 'host:port' }],
    [hostPort(), '::1:80', { expected: 'host:port' }],
    [url(['http:', 'https:']), 'https://x.example/', { value: 'https://x.example' }],
    [url(['http:']), 'x.example', { expected: 'a URL that starts with http://' }],
    [integer(), '1e3', { expected: 'a whole number from 0 to 2147483647' }],
    [integer({ min: -1 }), '-1', { value: -1 }],
    [boolean(), 'maybe', { expected: 'true or false' }],
    [text(), 'a\nb', { expected: 'text without control characters' }],
  ])('%#: %s', (parse, given, result) => {
    expect(parse(given)).toEqual(result);
  });

  it('knows which hosts only this machine can reach', () => {
    expect(['127.0.0.1', '127.1.2.3', 'localhost', '::1'].every(isLoopback)).toBe(true);
    expect(['0.0.0.0', '::', '10.0.0.1', '127.example.org'].some(isLoopback)).toBe(false);
  });
});
