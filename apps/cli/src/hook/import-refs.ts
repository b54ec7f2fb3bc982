import { inBoundedTransaction, type DB } from '@sluice/db';
import {
  commitPush,
  lockRepo,
  readRefs,
  type LockedRepo,
  type Oid,
  type RefEdit,
  type ServerKey,
} from '@sluice/ref-store';
import type { Kysely, Transaction } from 'kysely';
import { CommandError } from '../command-error.ts';
import { printableLine } from '../terminal.ts';
import type { BareRepository, DiskRefs } from './inspect-repository.ts';

export interface RefsToImport extends DiskRefs, Pick<BareRepository, 'objectFormat' | 'folder'> {
  repoId: string;
  /** Who adopts. */
  signer: string;
  key: ServerKey;
  /** Whether refs that the database has already may become others. */
  mayReplace: boolean;
}

/** Push id of what was imported; null: the database had the same refs already. */
export type Imported = { pushId: Oid | null; refs: number };

/** Makes the refs of the database those on disk, in one transaction and as one op record that causes no effects. */
export async function importRefs(db: Kysely<DB>, from: RefsToImport): Promise<Imported> {
  return await inBoundedTransaction(db, async (trx) => {
    const { repoId, objectFormat, head } = from;
    const repo = await lockRepo(trx, { repoId, create: { objectFormat, headRef: head } });
    if (repo?.objectFormat !== objectFormat) {
      throw new CommandError(
        `expected a ${repo?.objectFormat} repository for ${repoId}, which Sluice knows already, got a ${objectFormat} one`,
        'Choose another name with --repo.',
      );
    }
    if (repo.headRef !== head) {
      await trx.updateTable('repo').set({ head_ref: head }).where('repo_id', '=', repoId).execute();
    }
    const edits = await findDifferences(trx, from);
    if (edits.length === 0) return { pushId: null, refs: from.refs.size };
    if (repo.opSeq > 0n && !from.mayReplace) throw differing(repoId, edits);
    return { pushId: await commitImport(trx, repo, { from, edits }), refs: from.refs.size };
  });
}

async function findDifferences(trx: Transaction<DB>, { repoId, refs }: RefsToImport): Promise<RefEdit[]> {
  const known = new Map((await readRefs(trx, repoId)).map(({ name, oid }) => [name, oid]));
  const edits: RefEdit[] = [];
  for (const [name, to] of refs) {
    const expect = known.get(name) ?? 'absent';
    if (expect !== to) edits.push({ name, expect, to });
  }
  for (const [name, expect] of known) if (!refs.has(name)) edits.push({ name, expect, to: null });
  return edits;
}

async function commitImport(
  trx: Transaction<DB>,
  repo: LockedRepo,
  { from, edits }: { from: RefsToImport; edits: readonly RefEdit[] },
): Promise<Oid> {
  const outcome = await commitPush(trx, {
    repo,
    edits,
    signer: from.signer,
    key: from.key,
    message: `Adopt ${from.folder}: ${edits.length} ref${edits.length === 1 ? '' : 's'}`,
    noEffects: 'the refs were there when the repository was adopted',
  });
  if (outcome.status === 'committed') return outcome.pushId;
  const [first] = outcome.status === 'refused' ? outcome.refusals : [];
  throw new CommandError(
    `${printableLine(first?.name ?? from.repoId)}: ${first?.reason ?? 'nothing to import'}`,
    'Rename or delete the ref, then run it again.',
  );
}

function differing(repoId: string, edits: readonly RefEdit[]): CommandError {
  const [first] = edits;
  return new CommandError(
    `Sluice knows ${repoId} with other refs: ${edits.length} differ${edits.length === 1 ? 's' : ''}, such as ${printableLine(first!.name)}`,
    "Choose another name with --repo, or give --replace to make them the folder's; the log keeps what they were.",
  );
}
