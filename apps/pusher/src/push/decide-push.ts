import { DEFINITION_PREFIX } from '@sluice/effect-spec';
import { NOT_APPLIED, type RefEdit } from '@sluice/ref-store';
import type { LookUpOptions } from '../git/look-up-objects.ts';
import { syncFolder } from '../git/repo-folder.ts';
import { HttpError } from '../http-error.ts';
import { packFolder } from '../store/list-packs.ts';
import type { PruneWatch } from '../store/watch-prunes.ts';
import type { Command } from '../wire/preamble.ts';
import type { RefReport } from '../wire/report-status.ts';
import type { Signature } from './admit-signature.ts';
import type { ReadBrought } from './brought-objects.ts';
import { commitPushForSure } from './commit-push.ts';
import { findForward } from './find-forward.ts';
import { judgeGoverning } from './judge-governing.ts';
import { judgeObjects } from './judge-objects.ts';
import { isMove } from './judge-push.ts';
import { readObjectFacts } from './object-facts.ts';
import type { PushCaller } from './push-caller.ts';
import type { PushContext } from './push-context.ts';
import { judgeCommands, refuseAll, reportsOf, type GateRules } from './push-gate.ts';
import type { CommitOutcome, PushToCommit } from './push-to-commit.ts';
import { readResult, type Result } from './read-result.ts';
import type { Decision } from './receive-pack.ts';
import { toEdit } from './to-edit.ts';

/** A push as it reaches proc-receive: its objects are in place, and git has refused what it refuses. */
export interface PushToDecide extends GateRules {
  repoId: string;
  folder: string;
  claimNumber: bigint | null;
  /** What `pre-receive` was shown. */
  announced: readonly Command[];
  /** Reads what the push brought without a process for it; without it, git reads everything. */
  readBrought?: ReadBrought | undefined;
  /** For a repository that this server prunes. */
  pruneWatch?: PruneWatch | undefined;
  /** What git hands over. */
  commands: readonly Command[];
  pushOptions: readonly string[];
  caller: PushCaller;
  repoQuota?: PushToCommit['repoQuota'];
  signature: Signature | null;
  /** Refs that may not move to anything but a descendant, each with the reason for the case that it does. */
  forwardOnly: ReadonlyMap<string, string>;
}

/** A decision, for whoever counts them. */
export interface PushDecision extends Decision {
  outcome: CommitOutcome['status'];
  effectsQueued: number;
}

const UNEXPECTED = 'internal error; nothing was changed, try again, and the server log has the cause';

/** Decides a push: checks what git does not, commits, and says what becomes of each ref. Never throws. */
export async function decidePush(context: PushContext, push: PushToDecide): Promise<PushDecision> {
  try {
    return await decide(context, push);
  } catch (error) {
    context.log.error({ event: 'push_failed', repo_id: push.repoId, error });
    return refusal(refuseAll(push.commands, error instanceof HttpError ? error.message : UNEXPECTED));
  }
}

async function decide(context: PushContext, push: PushToDecide): Promise<PushDecision> {
  const { commands } = push;
  if (!isSameList(commands, push.announced)) return refuse(context, push, refuseAll(commands, NOT_APPLIED));
  const bad = judgeCommands(commands, push);
  if (bad !== null) return refuse(context, push, bad);
  const edits = commands.map((command) => toEdit(command, push.objectFormat));
  const git = gitFor(context, push);
  const guarded = edits.filter((edit) => push.forwardOnly.has(edit.name) && isMove(edit));
  const named = [
    ...edits.flatMap(({ expect, to }) => (to !== null ? [to] : isValue(expect) ? [expect] : [])),
    ...guarded.map(({ expect }) => expect),
  ];
  // Git syncs what is in a pack, but not the name that it has had since it left quarantine.
  const [facts] = await Promise.all([
    readObjectFacts(named, git, push.readBrought),
    syncFolder(packFolder(push.folder)),
  ]);
  const pushedDefinitions = edits.flatMap(({ name, to }) =>
    to !== null && name.startsWith(DEFINITION_PREFIX) && facts.get(to)?.kind === 'commit' ? [to] : [],
  );
  const definitions = await context.definitions.read(pushedDefinitions, git);
  // Not in pre-receive, where a refusal has no reason for each ref: the objects stay behind, and no ref names them.
  const forward = await findForward(guarded, facts, git);
  const governing = await judgeGoverning(context.governance, git, edits, facts);
  const faults = new Map([
    ...guarded.flatMap(({ name }) =>
      forward.has(name) ? [] : [[name, push.forwardOnly.get(name)!] as const],
    ),
    ...judgeObjects(edits, facts, definitions),
    ...governing.faults,
  ]);
  if (faults.size > 0) return refuse(context, push, reportsOf(commands, faults));
  const result = push.claimNumber === null ? null : await readResult(edits[0]!.to!, git, push.readBrought);
  if (typeof result === 'string') return refuse(context, push, refuseAll(commands, result));
  const outcome = await context.commitTurns.run(push.repoId, () =>
    commit(context, push, { edits, facts, forward, members: governing.members, result }),
  );
  return conclude(context, push, outcome);
}

async function commit(
  context: PushContext,
  push: PushToDecide,
  prepared: {
    edits: readonly RefEdit[];
    facts: Awaited<ReturnType<typeof readObjectFacts>>;
    forward: ReadonlySet<string>;
    members: PushToCommit['members'];
    result: Result | null;
  },
): Promise<CommitOutcome> {
  const { edits, facts, forward, members, result } = prepared;
  const { repoId, objectFormat, claimNumber, pushOptions, caller, signature, pruneWatch } = push;
  const git = gitFor(context, push);
  return await commitPushForSure(
    { db: context.db, key: context.key, log: context.log, databaseWaitMs: context.settings.databaseWaitMs },
    {
      repoId,
      objectFormat,
      edits,
      facts,
      forward,
      members,
      definitionsAt: (oids) => context.definitions.read(oids, git),
      governanceOf: (refs) => context.governance.of(refs, git),
      memberBytesOf: (members) => context.governance.bytesOf(members, git),
      effectsMax: context.settings.effectsPerPushMax,
      refsMax: context.settings.refsPerRepoMax,
      pushOptions,
      caller,
      repoQuota: push.repoQuota,
      signature,
      pruneWatch,
      result: result === null || claimNumber === null ? null : { claimNumber, content: result },
    },
  );
}

/** How git is asked about a push. */
function gitFor(
  { home, settings }: PushContext,
  { folder }: PushToDecide,
): Omit<LookUpOptions, 'withContent'> {
  return { folder, home, memoryBytesMax: settings.gitMemoryBytesMax };
}

function conclude(context: PushContext, push: PushToDecide, outcome: CommitOutcome): PushDecision {
  const { commands, repoId } = push;
  if (outcome.status === 'refused') {
    return refuse(context, push, reportsOf(commands, outcome.reasons));
  }
  const effectsQueued = outcome.status === 'committed' ? outcome.effectsQueued : 0;
  if (outcome.status === 'committed') {
    context.log.info({
      event: 'push_committed',
      repo_id: repoId,
      push_id: outcome.pushId,
      signer: push.caller.signer,
      refs: commands.length,
      effects_queued: effectsQueued,
    });
  }
  return {
    reports: commands.map(({ name }) => ({ name })),
    lines: outcome.lines,
    outcome: outcome.status,
    effectsQueued,
  };
}

function refuse(context: PushContext, push: PushToDecide, reports: RefReport[]): PushDecision {
  const reason = reports.find((report) => report.reason !== NOT_APPLIED)?.reason ?? NOT_APPLIED;
  context.log.info({
    event: 'push_refused',
    repo_id: push.repoId,
    signer: push.caller.signer,
    refs: reports.length,
    reason,
  });
  return refusal(reports);
}

function refusal(reports: RefReport[]): PushDecision {
  return { reports, lines: [], outcome: 'refused', effectsQueued: 0 };
}

/** Whether a ref is expected to be there with a certain value. */
function isValue(expect: RefEdit['expect']): boolean {
  return expect !== 'any' && expect !== 'absent';
}

/** Git drops a command that it refuses; what the client asked for as a whole is then not to be had. */
export function isSameList(a: readonly Command[], b: readonly Command[]): boolean {
  const key = ({ name, oldOid, newOid }: Command): string => `${oldOid} ${newOid} ${name.toString('latin1')}`;
  const left = a.map(key).toSorted();
  const right = b.map(key).toSorted();
  return left.length === right.length && left.every((line, index) => line === right[index]);
}
