import { exceededRepoQuota } from '@sluice/access';
import { BOUNDS, inTransaction, PREPARED, type DB } from '@sluice/db';
import { DEFINITION_PREFIX, RESULT_PREFIX } from '@sluice/effect-spec';
import {
  commitPush,
  countRefs,
  lockForPush,
  refsQuery,
  type AppliedEdit,
  type RefRow,
  type ServerKey,
} from '@sluice/ref-store';
import { sql, type Kysely, type Transaction } from 'kysely';
import { causeEffects } from './cause-effects.ts';
import { MEMBERS_READ_MAX } from './governance.ts';
import { judgeMembers } from './judge-members.ts';
import { judgePush } from './judge-push.ts';
import { limitMembers } from './limit-members.ts';
import { newRepo } from './new-repo.ts';
import { PushRefused } from './push-refused.ts';
import type { CommitOutcome, PushToCommit } from './push-to-commit.ts';
import {
  governingRefsQuery,
  toGoverningRefs,
  type GoverningRefs,
  type GoverningRow,
} from './read-governing-refs.ts';
import { checkClaim, settleClaim } from './settle-claim.ts';
import { skipReasonOf } from './skip-reason.ts';

/**
 * Commits a push: refs, reflog, op record, effects and, for a result, the completion of its claim, in one transaction
 * and with a number of statements that does not depend on the number of refs.
 */
export async function commitInTransaction(
  db: Kysely<DB>,
  key: ServerKey,
  push: PushToCommit,
): Promise<CommitOutcome> {
  try {
    return await inTransaction(db, (trx) => commit(trx, key, push));
  } catch (error) {
    if (error instanceof PushRefused) return { status: 'refused', reasons: error.reasons };
    throw error;
  }
}

async function commit(trx: Transaction<DB>, key: ServerKey, push: PushToCommit): Promise<CommitOutcome> {
  const { repoId, objectFormat } = push;
  const denial = await push.caller.judgeAgain(trx);
  if (denial !== null) throw new PushRefused(denial.reason);
  const { repo, named, rows } = await lockForPush(trx, {
    repoId,
    create: push.result === null ? newRepo(push) : undefined,
    edits: push.edits,
    before: [BOUNDS.compile(trx), DURABLE.compile(trx)],
    after: [
      refsQuery(trx, repoId, { prefix: DEFINITION_PREFIX }).compile(),
      governingRefsQuery(trx, { repoId, membersMax: MEMBERS_READ_MAX }).compile(),
    ],
  });
  if (repo === undefined) throw new PushRefused('no such repository');
  if (repo.objectFormat !== objectFormat) throw new PushRefused(`expected a ${repo.objectFormat} push`);
  const pruned = await push.pruneWatch?.(push.edits.flatMap(({ to }) => to ?? []));
  if (typeof pruned === 'string') throw new PushRefused(pruned);
  const claim = push.result === null ? null : await checkClaim(trx, push);
  const governing = toGoverningRefs(rows[1] as GoverningRow[]);
  const member = push.result === null ? await judgeLocked(push, governing) : null;
  const signer = member === null ? push.caller.signer : `member:${member}`;
  const skipReason = skipReasonOf(push.pushOptions);
  const outcome = await commitPush(trx, {
    repo,
    edits: push.edits,
    named,
    signer,
    key,
    ...(member === null ? {} : { certificate: push.signature!.certificate }),
    pushOptions: push.pushOptions,
    ...(skipReason === null ? {} : { noEffects: skipReason }),
  });
  // Not returned, which would commit a repository that a first push has made.
  if (outcome.status === 'refused')
    throw new PushRefused(new Map(outcome.refusals.map(({ name, reason }) => [name, reason])));
  if (claim !== null) await settleClaim(trx, claim, push);
  else if (outcome.status === 'committed') await requireRoom(trx, push, outcome.applied);
  if (member !== null && outcome.status === 'committed') await useUp(trx, push, outcome.pushId);
  if (outcome.status === 'unchanged')
    return { status: 'unchanged', lines: ['every ref was like that already'] };
  const committed = await causeEffects(trx, push, {
    pushId: outcome.pushId,
    signer,
    applied: outcome.applied,
    definitionRefs: rows[0] as RefRow[],
    claim,
  });
  if (repo.isNew && push.repoQuota !== undefined) {
    const fault = await exceededRepoQuota(trx, push.repoQuota);
    if (fault !== null) throw new PushRefused(fault);
  }
  push.onReady(committed);
  return committed;
}

/**
 * Gives the member whose signature counts, if any, or refuses the push. Members and policy may have changed since it
 * was let in; what it changes of them itself does not count yet, and has to fit what is there.
 */
async function judgeLocked(push: PushToCommit, governing: GoverningRefs): Promise<string | null> {
  const { edits, forward, caller, signature } = push;
  const governance = await push.governanceOf(governing);
  const judgement = await judgePush(governance, {
    edits,
    roles: caller.roles(push.repoId),
    key: signature?.key ?? null,
    isServerAdmin: caller.isServerAdmin,
    isUser: caller.isUser,
  });
  if ('refused' in judgement) throw new PushRefused(judgement.refused);
  const faults = judgeMembers(governance, push.members);
  if (faults.size > 0) throw new PushRefused(faults);
  const excess = await limitMembers(governing.members, edits, push.memberBytesOf);
  if (excess.size > 0) throw new PushRefused(excess);
  const unjudged = [...judgement.forwardOnly].filter(([name]) => !forward.has(name));
  if (unjudged.length === 0) return judgement.signer;
  // To compare histories takes longer than a transaction should.
  throw new PushRefused(
    new Map(unjudged.map(([name, reason]) => [name, `${reason}, since just now; push again`])),
  );
}

/** Refuses refs that are more than a repository may have. What takes away as many as it makes is never too much. */
async function requireRoom(
  trx: Transaction<DB>,
  { repoId, refsMax }: PushToCommit,
  applied: readonly AppliedEdit[],
): Promise<void> {
  const made = applied.filter(({ oldOid }) => oldOid === null);
  const gone = applied.filter(({ newOid }) => newOid === null);
  if (made.length <= gone.length) return;
  if ((await countRefs(trx, repoId, { except: RESULT_PREFIX, limit: refsMax + 1 })) <= refsMax) return;
  const reason = `expected at most ${refsMax} refs in a repository (SLUICE_REFS_PER_REPO), got more with this push; delete some, or ask for a larger limit`;
  throw new PushRefused(new Map(made.map(({ name }) => [name, reason])));
}

/** Refuses what was signed once and committed before. The repository is locked, so nobody else is about to. */
async function useUp(
  trx: Transaction<DB>,
  { repoId, signature }: PushToCommit,
  pushId: string,
): Promise<void> {
  const used = await trx
    .insertInto('push_certificate')
    .values({ repo_id: repoId, signed_hash: signature!.signedHash, push_id: pushId })
    .onConflict((conflict) => conflict.columns(['repo_id', 'signed_hash']).doNothing())
    .returning('push_id')
    .executeTakeFirst();
  if (used === undefined) throw new PushRefused('the push certificate was used before; push again');
}

/** An accepted push survives a crash of the database also where the operator gave that up for everything else. */
const DURABLE = sql`${PREPARED}select set_config('synchronous_commit', 'on', true)
                     where current_setting('synchronous_commit') = 'off'`;
