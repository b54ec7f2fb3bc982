import type { IncomingMessage, ServerResponse } from 'node:http';
import { repoQuotaFault, type RepoQuota } from '@sluice/access';
import { readRepo, repoFolder } from '@sluice/ref-store';
import { ensureRepoFolder } from '../git/repo-folder.ts';
import { HttpError } from '../http-error.ts';
import { admitSignature } from '../push/admit-signature.ts';
import { readClaimRef } from '../push/claim-ref.ts';
import { judgeCommands, refuseAll, reportsOf } from '../push/push-gate.ts';
import { PreambleRefused, type Preamble } from '../wire/preamble.ts';
import { encodeReport, type Report } from '../wire/report-status.ts';
import { claimIsGone, noSuchRepository } from './advertise-push.ts';
import { answer, dropRest, mayBeCutOff, requireContentType, requireEncoding } from './answer.ts';
import { countedAccount, type Caller, type Denial } from './caller.ts';
import { countRefusal } from './count-refusal.ts';
import { limitPack, packLimit } from './limit-pack.ts';
import type { Pusher } from './pusher.ts';
import { readBody } from './read-body.ts';
import { PREAMBLE_BYTES_MAX, readAhead, readOpening } from './read-opening.ts';
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
  const slots = address.claimNumber === undefined ? pusher.slots.pushes : pusher.slots.results;
  const isWanted = (): boolean => slots.isWanted;
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
  const target = await findTarget(pusher, address, opening.preamble);
  // In a report, since git hides the text of any other answer here: a dispatcher whose last answer was lost sends its
  // result a second time, and has to learn that the first one was taken.
  if (target === 'claim_is_gone') {
    const { message } = claimIsGone(address.claimNumber!);
    return await refuseEach(message);
  }
  const loss = target.isFirst ? null : await pusher.guard.judge(address.repoId, target.folder);
  if (loss !== null) return await refuseEach(loss);
  const reports = judgeCommands(commands, target);
  if (reports !== null) return await refuse(capabilities, { refs: reports, lines: [] });
  const { preamble } = opening;
  const admission = await admitSignature(pusher, { ...target, repoId: address.repoId, preamble, caller });
  if ('refused' in admission)
    return await refuse(capabilities, { refs: reportsOf(commands, admission.refused), lines: [] });
  const repoQuota = repoQuotaOf(caller, pusher.settings);
  const quotaFault = target.isFirst ? await repoQuotaFault(pusher.db, repoQuota) : null;
  if (quotaFault !== null) {
    pusher.metrics.refusals.inc({ reason: 'quota' });
    return await refuseEach(quotaFault);
  }
  const take = async (): Promise<void> => {
    const limit = await packLimit(target, pusher.settings);
    const bytes = slots.hasRoom ? opening.bytes : await readAhead(body, opening.bytes);
    const release = await slots.take(address.repoId, countedAccount(caller)).catch(asHttpError);
    if (release instanceof HttpError) {
      countRefusal(pusher.metrics, release.status);
      return await refuseEach(release.message);
    }
    try {
      await receivePush(pusher, {
        address,
        target,
        caller,
        repoQuota,
        admission,
        preamble,
        input: limitPack(concat(bytes, body), { preambleBytes: preamble.bytes, limit }),
        response,
      });
    } finally {
      release();
    }
    dropRest(request);
  };
  if (target.isFirst) return await pusher.firstPushes.run({ ...target, repoId: address.repoId }, take);
  await ensureRepoFolder(target.folder, address.repoId, target.objectFormat);
  await take();
}

/** What a client may be told; everything else is thrown on. */
function asHttpError(error: unknown): HttpError {
  if (error instanceof HttpError) return error;
  throw error;
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
