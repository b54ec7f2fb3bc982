import { exceededRepoQuota, type RepoQuota } from '@sluice/access';
import { BOUNDS, inTransaction, PREPARED, type DB } from '@sluice/db';
import {
  decodeWorkOrder,
  DEFINITION_PREFIX,
  MATCHING_STEPS_MAX,
  matchingSteps,
  planEffects,
} from '@sluice/effect-spec';
import {
  completeEffect,
  enqueueEffects,
  openClaim,
  skipEffects,
  type ClaimedEffect,
} from '@sluice/queue-core/repo';
import {
  commitPush,
  lockForPush,
  refsQuery,
  type AppliedEdit,
  type ObjectFormat,
  type RefEdit,
  type RefRow,
  type ServerKey,
} from '@sluice/ref-store';
import { sql, type Kysely, type Transaction } from 'kysely';
import type { Caller } from '../http/caller.ts';
import type { PruneWatch } from '../store/watch-prunes.ts';
import type { Signature } from './admit-signature.ts';
import { afterPush, readCurrentDefinitions } from './current-definitions.ts';
import { explainPush } from './explain-push.ts';
import { MEMBERS_MAX, type Governance } from './governance.ts';
import { judgePush } from './judge-push.ts';
import { newRepo } from './new-repo.ts';
import type { FactsByOid } from './object-facts.ts';
import { PushRefused } from './push-refused.ts';
import type { LoadedDefinition } from './read-definitions.ts';
import {
  governingRefsQuery,
  toGoverningRefs,
  type GoverningRefs,
  type GoverningRow,
} from './read-governing-refs.ts';
import type { Result } from './read-result.ts';
import { skipReasonOf } from './skip-reason.ts';

/** A push whose objects are in place, ready to be committed. */
export interface PushToCommit {
  repoId: string;
  objectFormat: ObjectFormat;
  edits: readonly RefEdit[];
  facts: FactsByOid;
  /** Reads definitions at these commits. */
  definitionsAt: (oids: readonly string[]) => Promise<Map<string, LoadedDefinition>>;
  effectsMax: number;
  /** What `git push -o` said. */
  pushOptions: readonly string[];
  /** Looks, once the repository is locked, whether objects of the push were taken out of it. */
  pruneWatch?: PruneWatch | undefined;
  /** Refs that were found to move to a descendant of what they were; others may do so too. */
  forward: ReadonlySet<string>;
  /** Who pushes. */
  caller: Pick<Caller, 'signer' | 'judgeAgain' | 'roles' | 'isServerAdmin'>;
  /** Holds the push back if it makes a repository; a hook's never does. */
  repoQuota?: RepoQuota | undefined;
  /** Who signed it, and what. */
  signature: Signature | null;
  /** Reads who may push what, from the refs that say so. */
  governanceOf: (refs: GoverningRefs) => Promise<Governance>;
  /** Set for a dispatcher's result push: the claim it completes, and what the result says. */
  result: { claimNumber: bigint; content: Result } | null;
  /** Called when only COMMIT is left: from then on, and not before, the push may be accepted. */
  onReady: (outcome: CommittedPush) => void;
}

export interface CommittedPush {
  status: 'committed';
  pushId: string;
  lines: readonly string[];
  effectsQueued: number;
}

export type CommitOutcome =
  | CommittedPush
  | { status: 'unchanged'; lines: readonly string[] }
  /** Nothing was written. Each ref has its reason, or all have the same one. */
  | { status: 'refused'; reasons: ReadonlyMap<string, string> | string };

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
      governingRefsQuery(trx, { repoId, membersMax: MEMBERS_MAX }).compile(),
    ],
  });
  if (repo === undefined) throw new PushRefused('no such repository');
  if (repo.objectFormat !== objectFormat) throw new PushRefused(`expected a ${repo.objectFormat} push`);
  const pruned = await push.pruneWatch?.(push.edits.flatMap(({ to }) => to ?? []));
  if (typeof pruned === 'string') throw new PushRefused(pruned);
  const claim = push.result === null ? null : await checkClaim(trx, push);
  const governing = toGoverningRefs(rows[1] as GoverningRow[]);
  const member = push.result === null ? await findSigner(push, governing) : null;
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
  if (claim !== null) await complete(trx, claim, push);
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
 * The member whose signature counts, if any. Members and policy may have changed since the push was let in; what it
 * changes of them itself does not count yet.
 */
async function findSigner(push: PushToCommit, governing: GoverningRefs): Promise<string | null> {
  const { edits, forward, caller, signature } = push;
  const judgement = judgePush(await push.governanceOf(governing), {
    edits,
    roles: caller.roles(push.repoId),
    key: signature?.key ?? null,
    isServerAdmin: caller.isServerAdmin,
  });
  if ('refused' in judgement) throw new PushRefused(judgement.refused);
  const unjudged = [...judgement.forwardOnly].filter(([name]) => !forward.has(name));
  if (unjudged.length === 0) return judgement.signer;
  // To compare histories takes longer than a transaction should.
  throw new PushRefused(
    new Map(unjudged.map(([name, reason]) => [name, `${reason}, since just now; push again`])),
  );
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

interface PushEffects {
  pushId: string;
  signer: string | null;
  applied: readonly AppliedEdit[];
  /** The refs of definitions before the push. */
  definitionRefs: readonly RefRow[];
  /** The claim whose result it is. */
  claim: ClaimedEffect | null;
}

async function causeEffects(
  trx: Transaction<DB>,
  push: PushToCommit,
  { pushId, signer, applied, definitionRefs, claim }: PushEffects,
): Promise<CommittedPush> {
  const { repoId } = push;
  const { definitions, broken } = await readCurrentDefinitions(push, afterPush(definitionRefs, applied));
  const names = applied.map(({ name }) => name);
  if (matchingSteps(definitions, names) > MATCHING_STEPS_MAX) {
    throw new PushRefused(
      `expected a push that can be matched in about a second, got ${names.length} refs for ${definitions.length} effect definitions with long patterns; push fewer refs at once`,
    );
  }
  const plan = planEffects({
    repoId,
    pushId,
    signer,
    applied,
    definitions,
    facts: push.facts,
    hops: claim === null ? 0 : hopsOf(claim) + 1,
    effectsMax: push.effectsMax,
    skipReason: skipReasonOf(push.pushOptions),
  });
  const enqueued = await enqueueEffects(
    trx,
    plan.enqueue.map(({ effect }) => effect),
  );
  const skipped =
    plan.skip.length === 0
      ? []
      : await skipEffects(
          trx,
          plan.skip.map(({ name, payload, reason }) => ({ repoId, name, payload, reason, pushId })),
        );
  return {
    status: 'committed',
    pushId,
    lines: explainPush({ pushId, plan, enqueued, skipped, broken }),
    effectsQueued: enqueued.filter(({ status }) => status === 'queued').length,
  };
}

async function checkClaim(trx: Transaction<DB>, push: PushToCommit): Promise<ClaimedEffect> {
  const { claimNumber, content } = push.result!;
  const claim = await openClaim(trx, { repoId: push.repoId, claimNumber });
  if (claim === undefined)
    throw new PushRefused(`claim ${claimNumber} is gone: it was completed, requeued or never made`);
  const decoded = decodeWorkOrder(claim.payload);
  if ('problem' in decoded) throw new PushRefused(`claim ${claimNumber}: ${decoded.problem}`);
  const [edit, ...others] = push.edits;
  if (others.length > 0 || edit?.name !== decoded.order.resultRef || edit.to === null) {
    throw new PushRefused(`expected ${decoded.order.resultRef} alone to be set for claim ${claimNumber}`);
  }
  if (content.effectId !== String(claim.effectId) || content.attempt !== claim.attempt) {
    throw new PushRefused(
      `result.json: expected effect ${claim.effectId} attempt ${claim.attempt}, got effect ${content.effectId} attempt ${content.attempt}`,
    );
  }
  return claim;
}

async function complete(trx: Transaction<DB>, claim: ClaimedEffect, push: PushToCommit): Promise<void> {
  const { outcome, reason } = push.result!.content;
  const completed = await completeEffect(trx, claim, {
    outcome,
    resultRef: push.edits[0]!.name,
    ...(reason === null ? {} : { reason }),
  });
  if (completed === 'stale') throw new PushRefused(`claim ${claim.claimNumber} is gone`);
}

function hopsOf(claim: ClaimedEffect): number {
  const decoded = decodeWorkOrder(claim.payload);
  return 'order' in decoded ? decoded.order.hops : 0;
}
