import { expect, test } from 'vitest';
import { readPusherSettings } from './settings.ts';

test('a database is all that is needed; the rest has defaults that are safe on one machine', () => {
  expect(readPusherSettings({ DATABASE_URL: 'postgres://localhost/x' })).toMatchObject({
    listen: { host: '127.0.0.1', port: 7420 },
    token: undefined,
    objectFormat: 'sha1',
  });
});

test('all wrong settings are named at once, and secrets are not shown', () => {
  const env = { DATABASE_URL: 'mysql://secret@x', SLUICE_LISTEN: 'nowhere', SLUICE_OBJECT_FORMAT: 'md5' };
  expect(() => readPusherSettings(env)).toThrow(/DATABASE_URL[^]*SLUICE_LISTEN[^]*SLUICE_OBJECT_FORMAT/);
  expect(() => readPusherSettings(env)).not.toThrow(/secret/);
});
