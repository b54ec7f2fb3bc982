import { join } from 'node:path';
import type { DB } from '@sluice/db';
import {
  commitPush,
  loadServerKey,
  lockRepo,
  type ObjectFormat,
  type PushOutcome,
  type RefEdit,
  type ServerKey,
} from '@sluice/ref-store';
import { makeTempFolder } from '@sluice/testkit';
import type { Kysely } from 'kysely';

/** A new server key that leaves no file behind. */
export async function newKey(): Promise<ServerKey> {
  using folder = makeTempFolder();
  return await loadServerKey(join(folder.path, 'key'));
}

export interface PushInput {
  repoId: string;
  edits: readonly RefEdit[];
  key: ServerKey;
  signer?: string;
  objectFormat?: ObjectFormat;
  certificate?: Uint8Array;
}

/** A push in a transaction of its own; creates the repository. */
export async function push(db: Kysely<DB>, input: PushInput): Promise<PushOutcome> {
  const { repoId, edits, key, signer = 'alice', objectFormat = 'sha1', certificate } = input;
  return await db.transaction().execute(async (trx) => {
    const repo = await lockRepo(trx, { repoId, create: { objectFormat } });
    return await commitPush(trx, {
      repo: repo!,
      edits,
      signer,
      key,
      ...(certificate ? { certificate } : {}),
    });
  });
}

/** An object id made of one digit. */
export function oid(digit: string | number, format: ObjectFormat = 'sha1'): string {
  return String(digit).repeat(format === 'sha1' ? 40 : 64);
}
