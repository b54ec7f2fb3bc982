import type { DB } from '@sluice/db';
import { iterateRefs } from '@sluice/ref-store';
import type { Kysely } from 'kysely';
import { runPatientGit } from './run-patient-git.ts';

const TIMEOUT_MS = 10 * 60_000;

/** How git calls an object that it needs and does not have, or cannot read. */
const GAP =
  /\b(?:error|fatal): (.*(?:missing|bad (?:tree )?object|could not read|unable to read|corrupt|inflate|unpack).*)$/im;

/** Walks from all refs to everything that they reach; returns what git could not find on the way, null: nothing. */
export async function findGap(
  db: Kysely<DB>,
  repoId: string,
  { folder, home, signal }: { folder: string; home: string; signal: AbortSignal },
): Promise<string | null> {
  const oids = new Set<string>();
  for await (const { oid } of iterateRefs(db, repoId)) oids.add(oid);
  try {
    await runPatientGit({
      folder,
      home,
      // The commit-graph knows commits whether they are there or not.
      args: ['-c', 'core.commitGraph=false', 'rev-list', '--objects', '--quiet', '--stdin'],
      input: [...oids].map((oid) => `${oid}\n`).join(''),
      timeoutMs: TIMEOUT_MS,
      signal,
    });
    return null;
  } catch (error) {
    const [, gap] = GAP.exec((error as Error).message) ?? [];
    if (gap === undefined) throw error;
    return gap;
  }
}
