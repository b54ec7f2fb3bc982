import type { IncomingMessage, ServerResponse } from 'node:http';
import { repoQuotaFault, type RepoQuota } from '@sluice/access';
import { readRepo, repoFolder } from '@sluice/ref-store';
import type { GitSlots } from '../git/git-slots.ts';
import { ensureRepoFolder } from '../git/repo-folder.ts';
import { admitSignature } from '../push/admit-signature.ts';
import { readClaimRef } from '../push/claim-ref.ts';
import { judgeCommands, refuseAll, reportsOf } from '../push/push-gate.ts';
import { PreambleRefused, type Preamble } from '../wire/preamble.ts';
import { encodeReport, type RefReport, type Report } from '../wire/report-status.ts';
import { claimIsGone, noSuchRepository } from './advertise-push.ts';
import { answer, dropRest, mayBeCutOff, requireContentType, requireEncoding } from './answer.ts';
import { countedAccount, type Caller, type Denial } from './caller.ts';
import { countRefusal } from './count-refusal.ts';
import { knownFailure, noteFailure } from './known-failure.ts';
import { limitPack, packLimit } from './limit-pack.ts';
import type { Pusher } from './pusher.ts';
import { ClientGone, readBody } from './read-body.ts';
import { PREAMBLE_BYTES_MAX, readAhead, readOpening, type Opening } from './read-opening.ts';
import { receivePush, RESULT_TYPE, type Target } from './receive-push.ts';
import type { RepoAddress } from './route.ts';

/** Who pushes where. */
interface Approach {
  address: RepoAddress;
  caller: Caller;
  /** Why the caller may push nothing there. */
  denial: Denial | null;
}

/** Takes one push: gate, objects, decision, report. */
export async function serveReceivePack(
  pusher: Pusher,
  { address, caller, denial }: Approach,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  requireContentType(request, 'application/x-git-receive-pack-request');
  requireEncoding(request, 'identity');
  const { idleMs, uploadMs, pushBytesMax } = pusher.settings;
  const bytesMax = pushBytesMax + PREAMBLE_BYTES_MAX;
  const slots = slotsFor(pusher, address);
  const isWanted = (): boolean => slots.isWanted(address.repoId, countedAccount(caller));
  const body = readBody(request, { bytesMax, idleMs, totalMs: uploadMs, isWanted });
  const opening = await readOpening(body, pusher.settings);
  if (opening === 'probe') return answer(response, 200, RESULT_TYPE, '');
  const refuse = async (capabilities: ReadonlySet<string>, report: Report): Promise<void> => {
    pusher.metrics.pushes.inc({ outcome: 'refused' });
    pusher.log.info({
      event: 'push_refused',
      repo_id: address.repoId,
      signer: caller.signer,
      refs: report.refs.length,
      reason: report.unpackProblem ?? report.refs[0]?.reason,
    });
    await body.return();
    // A client that is cut off before it has sent its pack shows no report, but the lines that came before it.
    const lines = mayBeCutOff(request) ? reasonsOf(report) : report.lines;
    answer(response, 200, RESULT_TYPE, encodeReport(capabilities, { ...report, lines }));
    dropRest(request);
  };
  if (opening instanceof PreambleRefused) {
    const { message, commands, capabilities } = opening;
    return await refuse(capabilities, {
      unpackProblem: message,
      refs: refuseAll(commands, message),
      lines: [],
    });
  }
  const { commands, capabilities } = opening.preamble;
  const refuseEach = async (reason: string): Promise<void> =>
    await refuse(capabilities, { refs: refuseAll(commands, reason), lines: [] });
  if (denial !== null) {
    countRefusal(pusher.metrics, denial.status);
    return await refuseEach(denial.reason);
  }
  const refusal = await take(pusher, { address, caller }, { opening, body, response }).catch(
    (error: unknown) => {
      const failure = knownFailure(error);
      // Of an answer without a report git shows nothing but the number, which is what a dispatcher goes by.
      const isForPeople = failure.status === 503 || failure.status === 404;
      if (error instanceof ClientGone || response.headersSent || !isForPeople) throw error;
      noteFailure(pusher, request, failure);
      return failure.message;
    },
  );
  if (typeof refusal === 'string') return await refuseEach(refusal);
  if (refusal !== null) return await refuse(capabilities, { refs: refusal, lines: [] });
  dropRest(request);
}

/** Takes a push whose opening was read, or says why not: one reason for all its refs, or one for each. */
async function take(
  pusher: Pusher,
  { address, caller }: Omit<Approach, 'denial'>,
  {
    opening,
    body,
    response,
  }: { opening: Opening; body: AsyncGenerator<Buffer, void, void>; response: ServerResponse },
): Promise<string | RefReport[] | null> {
  const { preamble } = opening;
  const { commands } = preamble;
  const { repoId } = address;
  const target = await findTarget(pusher, address, preamble);
  // A dispatcher whose last answer was lost sends its result a second time, and has to learn that the first was taken.
  if (target === 'claim_is_gone') return claimIsGone(address.claimNumber!).message;
  const loss = target.isFirst ? null : await pusher.guard.judge(repoId, target.folder);
  if (loss !== null) return loss;
  const reports = judgeCommands(commands, target);
  if (reports !== null) return reports;
  const repoQuota = repoQuotaOf(caller, pusher.settings);
  const quotaFault = target.isFirst ? await repoQuotaFault(pusher.db, repoQuota) : null;
  if (quotaFault !== null) {
    pusher.metrics.refusals.inc({ reason: 'quota' });
    return quotaFault;
  }
  const slots = slotsFor(pusher, address);
  const serve = async (): Promise<RefReport[] | string | null> => {
    const limit = await packLimit(target, pusher.settings);
    const bytes = slots.hasRoom ? opening.bytes : await readAhead(body, opening.bytes);
    const release = await slots.take(repoId, countedAccount(caller));
    try {
      // Not before: it may read thousands of members, and compare thousands of refs with a hundred rules.
      const admission = await admitSignature(pusher, { ...target, repoId, preamble, caller });
      if ('refused' in admission) return reportsOf(commands, admission.refused);
      const input = limitPack(concat(bytes, body), { preambleBytes: preamble.bytes, limit });
      await receivePush(pusher, { address, target, caller, repoQuota, admission, preamble, input, response });
      return null;
    } finally {
      release();
    }
  };
  if (target.isFirst) return await pusher.firstPushes.run({ ...target, repoId }, serve);
  await ensureRepoFolder(target.folder, repoId, target.objectFormat);
  return await serve();
}

function slotsFor({ slots }: Pusher, { claimNumber }: RepoAddress): GitSlots {
  return claimNumber === undefined ? slots.pushes : slots.results;
}

/** Most different reasons that are shown as lines. */
const REASONS_MAX = 3;

/** Why a push is refused, each reason once. */
function reasonsOf({ unpackProblem, refs }: Report): string[] {
  const reasons = [unpackProblem, ...refs.map(({ reason }) => reason)];
  return [...new Set(reasons.filter((reason) => reason !== undefined))].slice(0, REASONS_MAX);
}

/** How many repositories the first pushes of a caller may make. */
function repoQuotaOf({ account }: Caller, { reposMax }: Pusher['settings']): RepoQuota {
  return { account: account?.name ?? null, accountMax: account?.reposMax ?? null, serverMax: reposMax };
}

async function findTarget(
  pusher: Pusher,
  address: RepoAddress,
  preamble: Preamble,
): Promise<Target | 'claim_is_gone'> {
  const { repoId, claimNumber } = address;
  const state = await readRepo(pusher.db, repoId);
  if (claimNumber !== undefined && state === undefined) throw noSuchRepository(address);
  const claimRef = claimNumber === undefined ? null : await readClaimRef(pusher.db, { repoId, claimNumber });
  if (claimNumber !== undefined && claimRef === null) return 'claim_is_gone';
  const objectFormat = state?.objectFormat ?? preamble.objectFormat;
  const folder = repoFolder(pusher.settings.dataDir, repoId, objectFormat);
  return { folder, objectFormat, claimRef, state, isFirst: state === undefined };
}

async function* concat(first: Buffer, rest: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void, void> {
  yield first;
  yield* rest;
}
