import { assertStorable } from '@sluice/db';
import { readServerKeys, retireServerKey } from '@sluice/ref-store';
import { CommandError } from './command-error.ts';
import { formatInstant } from './format-instant.ts';
import { table, type Terminal } from './terminal.ts';
import { withDatabase } from './with-database.ts';

/** `sluice key list`: the public keys that op records may be signed with. */
export async function showKeys(terminal: Terminal): Promise<void> {
  const keys = await withDatabase(terminal, (db) => readServerKeys(db));
  const rows = keys.map((key) => [
    key.fingerprint,
    formatInstant(key.registeredAt),
    key.retiredAt === null ? 'in use' : formatInstant(key.retiredAt),
    key.publicKey,
  ]);
  terminal.stdout.write(
    rows.length === 0
      ? 'no pusher has started on this database yet\n'
      : table(['FINGERPRINT', 'SINCE', 'RETIRED', 'PUBLIC KEY'], rows),
  );
}

/** `sluice key retire`: from now on its signatures do not count. */
export async function retireKey(terminal: Terminal, fingerprint: string): Promise<void> {
  assertStorable('fingerprint', fingerprint);
  if (!(await withDatabase(terminal, (db) => retireServerKey(db, fingerprint)))) {
    throw new CommandError(
      `there is no key ${fingerprint.slice(0, 80)} in use`,
      'sluice key list shows the keys.',
    );
  }
  terminal.stdout.write(`retired ${fingerprint}; a pusher that has it does not start any more\n`);
}
