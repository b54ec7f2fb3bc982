import { useTestDatabase } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { newKey } from '../test/push-fixture.ts';
import { readServerKeys, registerServerKey, retireServerKey } from './register-server-key.ts';

const database = useTestDatabase();

test('pushers that start at once with one key register it once', async () => {
  const { db } = database;
  const keys = await Promise.all(Array.from({ length: 20 }, () => newKey()));
  for (const key of keys) await Promise.all(Array.from({ length: 6 }, () => registerServerKey(db, key)));
  const known = new Set((await readServerKeys(db)).map(({ fingerprint }) => fingerprint));
  expect(known).toEqual(new Set(keys.map(({ fingerprint }) => fingerprint)));
  await db.deleteFrom('server_key').execute();
});

test('a key is registered once, and not again once it is retired', async () => {
  const { db } = database;
  const [first, second] = [await newKey(), await newKey()];
  await registerServerKey(db, first);
  await Promise.all([first, second, second].map((key) => registerServerKey(db, key)));
  const known = { publicKey: first.publicKey, registeredAt: expect.any(Date), retiredAt: null };
  expect(await readServerKeys(db)).toEqual([
    { ...known, fingerprint: first.fingerprint },
    { ...known, fingerprint: second.fingerprint, publicKey: second.publicKey },
  ]);

  expect(await retireServerKey(db, first.fingerprint)).toBe(true);
  expect(await retireServerKey(db, first.fingerprint)).toBe(false);
  await expect(registerServerKey(db, first)).rejects.toMatchObject({
    code: 'server_key_unusable',
    message: expect.stringContaining(first.fingerprint),
  });
  expect((await readServerKeys(db)).map(({ retiredAt }) => retiredAt === null)).toEqual([false, true]);
});
