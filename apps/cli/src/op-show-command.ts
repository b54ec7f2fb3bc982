import type { DB } from '@sluice/db';
import {
  encodeEdits,
  formatOf,
  iteratePushes,
  readObjects,
  readServerKeys,
  requestOf,
  verifyOpRecord,
  type LoggedPush,
  type RegisteredKey,
} from '@sluice/ref-store';
import { RESULT_PREFIX } from '@sluice/effect-spec';
import type { Kysely } from 'kysely';
import { CommandError } from './command-error.ts';
import { formatInstant } from './format-instant.ts';
import { printableLine, table, writeStored, type Terminal } from './terminal.ts';
import { withDatabase } from './with-database.ts';

/** Asks for the bytes of one of the git objects that a record consists of, instead of a description. */
export interface ShowOptions {
  readonly raw?: true;
  readonly edits?: true;
  readonly certificate?: true;
}

/** `sluice op show`: a push as its record, the log and the reflog have it. */
export async function showOp(terminal: Terminal, push: string, options: ShowOptions): Promise<void> {
  if (!/^[0-9a-f]{7,64}$/.test(push)) {
    throw new CommandError(
      `expected a push id or its first 7 or more digits, got ${JSON.stringify(push.slice(0, 80))}`,
      'The output of git push has it, after "push".',
    );
  }
  const output = await withDatabase(terminal, async (db) => {
    const { repoId, logged } = await findPush(db, push);
    if (options.raw === true) return bytesOfRecord(logged);
    if (options.edits === true) return Buffer.from(encodeEdits(formatOf(logged.pushId), logged.edits));
    if (options.certificate === true) return await readCertificate(db, repoId, logged);
    return await describe(repoId, logged, await readServerKeys(db));
  });
  if (typeof output === 'string') terminal.stdout.write(output);
  else writeStored(terminal.stdout, output);
}

function bytesOfRecord({ pushId, body }: LoggedPush): Buffer {
  if (body !== null) return body;
  throw new CommandError(`push ${pushId} has no record`, 'It was recorded by its id only.');
}

async function readCertificate(
  db: Kysely<DB>,
  repoId: string,
  { pushId, certOid }: LoggedPush,
): Promise<Uint8Array> {
  if (certOid === null) throw new CommandError(`nobody signed push ${pushId}`, 'See docs/members.md.');
  const stored = (await readObjects(db, { repoId, oids: [certOid] })).get(certOid);
  if (stored !== undefined) return stored.bytes;
  throw new CommandError(
    `the certificate of push ${pushId} is gone, or was changed`,
    `Run sluice op verify ${repoId}.`,
  );
}

/** Push ids are unique over all repositories, and the person who has one need not know where it belongs. */
async function findPush(db: Kysely<DB>, push: string): Promise<{ repoId: string; logged: LoggedPush }> {
  const [found, another] = await db
    .selectFrom('op_record')
    .select(['repo_id', 'seq'])
    .where('push_id', '>=', push)
    // Every id that begins with these digits is before this one: g follows f.
    .where('push_id', '<', `${push}g`)
    .limit(2)
    .execute();
  if (found === undefined) {
    throw new CommandError(
      `there is no push ${push}`,
      'The output of git push has the id, after "push"; sluice repo show <repo> has that of the last push.',
    );
  }
  if (another !== undefined)
    throw new CommandError(`more than one push begins with ${push}`, 'Give more digits.');
  const pushes = iteratePushes(db, { repoId: found.repo_id, after: BigInt(found.seq) - 1n });
  for await (const logged of pushes) return { repoId: found.repo_id, logged };
  throw new CommandError(`push ${push} is gone`, 'Try again.');
}

async function describe(repoId: string, push: LoggedPush, keys: readonly RegisteredKey[]): Promise<string> {
  const { noEffects, pushOptions } =
    push.body === null ? { noEffects: null, pushOptions: [] } : requestOf(push.body);
  const facts: [string, string][] = [
    ['push', push.pushId],
    ['repository', repoId],
    ['number', String(push.seq)],
    ['before it', push.parent ?? 'none'],
    ['pushed by', describePusher(push)],
    ['at', formatInstant(push.createdAt)],
    ...(push.certOid === null ? [] : [['certificate', push.certOid] as [string, string]]),
    ...pushOptions.map((option): [string, string] => ['push option', option]),
    ...(noEffects === null ? [] : [['no effects', noEffects] as [string, string]]),
    ['record', await judge(push, keys)],
  ];
  const edits = push.edits.map(({ name, oldOid, newOid }) => [name, oldOid ?? 'none', newOid ?? 'none']);
  return [
    ...facts.map(([name, value]) => `${name.padEnd(12)} ${printableLine(value)}\n`),
    '\n',
    table(['REF', 'BEFORE', 'AFTER'], edits),
  ].join('');
}

/** Result refs are open to nobody but a dispatcher that holds the claim, whether it showed a token or not. */
function describePusher({ signer, edits }: LoggedPush): string {
  const isResult =
    edits.length > 0 && edits.every(({ name, newOid }) => name.startsWith(RESULT_PREFIX) && newOid !== null);
  if (!isResult) return signer ?? 'not known: no account, no signature';
  return `${signer ?? 'a dispatcher'}, with the result of an effect`;
}

async function judge({ pushId, body }: LoggedPush, keys: readonly RegisteredKey[]): Promise<string> {
  if (body === null) return 'none; it was recorded by its id only';
  const check = await verifyOpRecord({ pushId, body, trustedKeys: keys.map((key) => key.publicKey) });
  if (check.status === 'invalid') return `bad: ${check.reason}`;
  const key = keys.find(({ publicKey }) => publicKey === check.publicKey);
  return `good, signed by ${key?.fingerprint ?? check.publicKey}`;
}
