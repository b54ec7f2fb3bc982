import { access } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { type DB, inBoundedTransaction } from '@sluice/db';
import {
  commitPush,
  loadServerKey,
  lockRepo,
  readServerKeys,
  type PushOutcome,
  type RefRow,
  type ServerKey,
} from '@sluice/ref-store';
import type { Kysely } from 'kysely';
import { CommandError } from './command-error.ts';
import { ObjectStore } from './object-store.ts';
import { readDataFolder } from './settings.ts';
import { printableLine, type Terminal } from './terminal.ts';
import { withDatabase } from './with-database.ts';

export interface DropLostOptions {
  readonly yes?: true;
}

/**
 * `sluice repo drop-lost`: deletes the refs whose objects are on no disk and in no backup, so that the repository can
 * be used again. A push like any other, in the log and signed; without `--yes` it only says what it would delete.
 */
export async function dropLostRefs(
  terminal: Terminal,
  repoId: string,
  { yes }: DropLostOptions,
): Promise<void> {
  const store = new ObjectStore(terminal);
  await store.assertHere();
  const key = await loadServerKey(await keyFile(terminal));
  const { lost, outcome } = await withDatabase(terminal, (db) =>
    inBoundedTransaction(db, async (trx): Promise<{ lost: RefRow[]; outcome: PushOutcome | null }> => {
      const repo = await lockRepo(trx, { repoId });
      if (repo === undefined)
        throw new CommandError(
          `there is no repository called ${repoId.slice(0, 200)}`,
          'sluice repo list shows them.',
        );
      await assertOfThisDatabase(trx, key, store.dataDir);
      const check = await store.check(trx, repo, { isDeep: false });
      if (yes !== true || check.lost.length === 0) return { lost: check.lost, outcome: null };
      const committed = await commitPush(trx, {
        repo,
        edits: check.lost.map(({ name, oid }) => ({ name, expect: oid, to: null })),
        signer: 'operator',
        key,
        noEffects: 'the objects of these refs were lost',
      });
      return { lost: check.lost, outcome: committed };
    }),
  );
  if (lost.length === 0) {
    terminal.stdout.write(`${repoId}: every object that a ref names is there; nothing was deleted\n`);
    return;
  }
  const lines = lost.map(({ name, oid }) => `  ${printableLine(`${name} ${oid}`)}\n`).join('');
  if (outcome?.status !== 'committed') {
    terminal.stdout.write(`${repoId}: would delete\n${lines}`);
    throw new CommandError('nothing was deleted', 'Look for a backup or a clone first; then add --yes.');
  }
  terminal.stdout.write(`${repoId}: push ${outcome.pushId} deleted\n${lines}`);
}

/** In the data folder of another installation, such as that of npm start, everything would seem to be lost. */
async function assertOfThisDatabase(db: Kysely<DB>, key: ServerKey, dataDir: string): Promise<void> {
  const keys = await readServerKeys(db);
  if (keys.some(({ publicKey, retiredAt }) => publicKey === key.publicKey && retiredAt === null)) return;
  throw new CommandError(
    `expected the data folder and the key of a pusher on this database, got ${dataDir} and ${key.fingerprint}, which is not in use`,
    "Run this with the pusher's SLUICE_DATA_DIR and SLUICE_KEY_FILE; sluice key list shows the keys in use.",
  );
}

/** As the pusher reads it; it has to be there, since a new key would be nobody's. */
async function keyFile({ cwd, env }: Terminal): Promise<string> {
  const file = resolve(cwd, env['SLUICE_KEY_FILE'] || join(readDataFolder(env), 'server-key.pem'));
  try {
    await access(file);
    return file;
  } catch (error) {
    throw new CommandError(
      `cannot read the pusher's key ${file}: ${(error as NodeJS.ErrnoException).code}`,
      "Run this as the pusher's user, with its SLUICE_DATA_DIR and SLUICE_KEY_FILE.",
    );
  }
}
