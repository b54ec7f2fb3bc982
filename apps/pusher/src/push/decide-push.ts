import { DEFINITION_PREFIX } from '@sluice/effect-spec';
import { zeroOid, type ObjectFormat, type RefEdit } from '@sluice/ref-store';
import type { Caller } from '../http/caller.ts';
import type { Pusher } from '../pusher.ts';
import type { Command } from '../wire/preamble.ts';
import type { RefReport } from '../wire/report-status.ts';
import type { Signature } from './admit-signature.ts';
import { commitPushForSure } from './commit-push.ts';
import type { CommitOutcome } from './commit-transaction.ts';
import { judgeGoverning } from './judge-governing.ts';
import { judgeObjects } from './judge-objects.ts';
import { readObjectFacts } from './object-facts.ts';
import { judgeCommands, NOT_APPLIED, refuseAll, reportsOf, type GateRules } from './push-gate.ts';
import { readResult, type Result } from './read-result.ts';
import type { Decision } from './receive-pack.ts';

/** A push as it reaches proc-receive: its objects are in place, and git has refused what it refuses. */
export interface PushToDecide extends GateRules {
  repoId: string;
  folder: string;
  claimNumber: bigint | null;
  /** What `pre-receive` was shown. */
  announced: readonly Command[];
  /** What git hands over. */
  commands: readonly Command[];
  skipReason: string | null;
  caller: Caller;
  signature: Signature | null;
}

/** Decides a push: checks what git does not, commits, and says what becomes of each ref. Never throws. */
export async function decidePush(pusher: Pusher, push: PushToDecide): Promise<Decision> {
  const { log, metrics } = pusher;
  const stop = metrics.pushSeconds.startTimer();
  try {
    return await decide(pusher, push);
  } catch (error) {
    log.error({ event: 'push_failed', repo_id: push.repoId, error });
    metrics.pushes.inc({ outcome: 'refused' });
    const reason = 'internal error; nothing was changed, try again, and the server log has the cause';
    return { reports: refuseAll(push.commands, reason), lines: [] };
  } finally {
    stop();
  }
}

async function decide(pusher: Pusher, push: PushToDecide): Promise<Decision> {
  const { commands } = push;
  if (!isSameList(commands, push.announced)) return refuse(pusher, push, refuseAll(commands, NOT_APPLIED));
  const bad = judgeCommands(commands, push);
  if (bad !== null) return refuse(pusher, push, bad);
  const edits = commands.map((command) => toEdit(command, push.objectFormat));
  const git = { folder: push.folder, home: pusher.home };
  const facts = await readObjectFacts(
    edits.flatMap(({ expect, to }) => (to !== null ? [to] : isOid(expect) ? [expect] : [])),
    git,
  );
  const pushedDefinitions = edits.flatMap(({ name, to }) =>
    to !== null && name.startsWith(DEFINITION_PREFIX) && facts.get(to)?.kind === 'commit' ? [to] : [],
  );
  const definitions = await pusher.definitions.read(pushedDefinitions, git);
  const faults = new Map([
    ...judgeObjects(edits, facts, definitions),
    ...(await judgeGoverning(pusher.governance, edits, facts, git)),
  ]);
  if (faults.size > 0) return refuse(pusher, push, reportsOf(commands, faults));
  const result = push.claimNumber === null ? null : await readResult(edits[0]!.to!, git);
  if (typeof result === 'string') return refuse(pusher, push, refuseAll(commands, result));
  const outcome = await pusher.commitTurns.run(push.repoId, () =>
    commit(pusher, push, { edits, facts, result }),
  );
  return conclude(pusher, push, outcome);
}

async function commit(
  pusher: Pusher,
  push: PushToDecide,
  prepared: {
    edits: readonly RefEdit[];
    facts: Awaited<ReturnType<typeof readObjectFacts>>;
    result: Result | null;
  },
): Promise<CommitOutcome> {
  const { edits, facts, result } = prepared;
  const { repoId, objectFormat, claimNumber, skipReason, caller, signature } = push;
  const git = { folder: push.folder, home: pusher.home };
  return await commitPushForSure(
    { db: pusher.db, key: pusher.key, log: pusher.log, databaseWaitMs: pusher.settings.databaseWaitMs },
    {
      repoId,
      objectFormat,
      edits,
      facts,
      definitionsAt: (oids) => pusher.definitions.read(oids, git),
      governanceNow: (trx) => pusher.governance.read(trx, repoId, git),
      effectsMax: pusher.settings.effectsPerPushMax,
      skipReason,
      caller,
      signature,
      result: result === null || claimNumber === null ? null : { claimNumber, content: result },
    },
  );
}

function conclude(pusher: Pusher, push: PushToDecide, outcome: CommitOutcome): Decision {
  const { commands, repoId } = push;
  if (outcome.status === 'refused') {
    return refuse(pusher, push, reportsOf(commands, outcome.reasons));
  }
  pusher.metrics.pushes.inc({ outcome: outcome.status });
  if (outcome.status === 'committed') {
    const { pushId, effectsQueued } = outcome;
    pusher.metrics.effectsQueued.inc(effectsQueued);
    pusher.log.info({
      event: 'push_committed',
      repo_id: repoId,
      push_id: pushId,
      signer: push.caller.signer,
      refs: commands.length,
      effects_queued: effectsQueued,
    });
  }
  return { reports: commands.map(({ name }) => ({ name })), lines: outcome.lines };
}

function refuse(pusher: Pusher, push: PushToDecide, reports: RefReport[]): Decision {
  pusher.metrics.pushes.inc({ outcome: 'refused' });
  const reason = reports.find((report) => report.reason !== NOT_APPLIED)?.reason ?? NOT_APPLIED;
  pusher.log.info({
    event: 'push_refused',
    repo_id: push.repoId,
    signer: push.caller.signer,
    refs: reports.length,
    reason,
  });
  return { reports, lines: [] };
}

function toEdit({ name, oldOid, newOid }: Command, objectFormat: ObjectFormat): RefEdit {
  const zero = zeroOid(objectFormat);
  return {
    name: name.toString('utf8'),
    expect: oldOid === zero ? 'absent' : oldOid,
    to: newOid === zero ? null : newOid,
  };
}

function isOid(expect: RefEdit['expect']): boolean {
  return expect !== 'any' && expect !== 'absent';
}

/** Git drops a command that it refuses; what the client asked for as a whole is then not to be had. */
export function isSameList(a: readonly Command[], b: readonly Command[]): boolean {
  const key = ({ name, oldOid, newOid }: Command): string => `${oldOid} ${newOid} ${name.toString('latin1')}`;
  const left = a.map(key).toSorted();
  const right = b.map(key).toSorted();
  return left.length === right.length && left.every((line, index) => line === right[index]);
}
