import type { IncomingMessage, ServerResponse } from 'node:http';
import { repoQuotaFault, type RepoQuota } from '@sluice/access';
import { readRepo, type ObjectFormat, type RepoState } from '@sluice/ref-store';
import { adoptedAs } from '../adopted/adopted-folder.ts';
import { gitEnvironment } from '../git/git-environment.ts';
import { saysNoRoom } from '../git/no-room.ts';
import { ensureRepoFolder, repoFolder } from '../git/repo-folder.ts';
import { receivePackConfiguration } from '../git/serve-configuration.ts';
import type { Pusher } from '../pusher.ts';
import { readClaimRef } from '../push/claim-ref.ts';
import { admitSignature, type Admission, type Signature } from '../push/admit-signature.ts';
import { expectObjects } from '../push/brought-objects.ts';
import { nonceFault } from '../push/certificate-nonce.ts';
import { decidePush, isSameList } from '../push/decide-push.ts';
import { judgeCommands, refuseAll, reportsOf } from '../push/push-gate.ts';
import { runReceivePack, type CertificateFacts } from '../push/receive-pack.ts';
import { watchPrunes } from '../store/watch-prunes.ts';
import { PreambleRefused, type Command, type Preamble } from '../wire/preamble.ts';
import { encodeReport, type Report } from '../wire/report-status.ts';
import { claimIsGone, noSuchRepository } from './advertise-push.ts';
import {
  answer,
  dropRest,
  endAnswer,
  mayBeCutOff,
  NO_CACHE,
  requireContentType,
  requireEncoding,
} from './answer.ts';
import { countedAccount, type Caller, type Denial } from './caller.ts';
import { countRefusal } from './count-refusal.ts';
import { HttpError } from './http-error.ts';
import { limitPack, packLimit } from './limit-pack.ts';
import { readBody } from './read-body.ts';
import { PREAMBLE_BYTES_MAX, readAhead, readOpening } from './read-opening.ts';
import type { RepoAddress } from './route.ts';

const RESULT_TYPE = 'application/x-git-receive-pack-result';

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
      await receive(pusher, {
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

interface Target {
  folder: string;
  objectFormat: ObjectFormat;
  claimRef: string | null;
  /** As it was before the push; undefined: there was no such repository. */
  state: RepoState | undefined;
  /** Whether the push would make the repository. */
  isFirst: boolean;
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

async function receive(
  pusher: Pusher,
  push: {
    address: RepoAddress;
    target: Target;
    caller: Caller;
    repoQuota: RepoQuota;
    admission: Exclude<Admission, { refused: unknown }>;
    preamble: Preamble;
    input: AsyncIterable<Buffer>;
    response: ServerResponse;
  },
): Promise<void> {
  const { address, target, preamble, response } = push;
  const { signature, forwardOnly } = push.admission;
  const { hooksFolder, settings } = pusher;
  const { state, folder } = target;
  let announced: readonly Command[] = [];
  let isCommitted = false;
  // What git looks through to see whether a push is whole ends at the refs on disk.
  if (state !== undefined)
    await refreshing(pusher, address.repoId, () =>
      pusher.refs.preparePush(address.repoId, { state, folder }),
    );
  const readBrought = await expectObjects(target.folder, target.objectFormat);
  const pruneWatch = await watchPrunes({ folder: target.folder, home: pusher.home });
  const end = await runReceivePack({
    folder: target.folder,
    env: gitEnvironment({
      home: pusher.home,
      config: receivePackConfiguration({
        folder: target.folder,
        hooksFolder,
        pushBytesMax: settings.pushBytesMax,
        claimRef: target.claimRef,
        nonceSeed: signature === null ? null : pusher.nonceSeed,
      }),
    }),
    isBanded: preamble.capabilities.has('side-band-64k'),
    input: push.input,
    timeoutMs: settings.uploadMs,
    memoryBytesMax: settings.gitMemoryBytesMax,
    onOutput: (chunk) => {
      if (response.destroyed) return;
      if (!response.headersSent) response.writeHead(200, { ...NO_CACHE, 'content-type': RESULT_TYPE });
      response.write(chunk);
    },
    onPreReceive: (commands, certificate) => {
      announced = commands;
      const refusal = isSameList(commands, preamble.commands)
        ? signatureFault(signature, certificate)
        : 'git read another list of refs than this server';
      if (refusal !== null) {
        pusher.metrics.pushes.inc({ outcome: 'refused' });
        const { repoId } = address;
        pusher.log.info({ event: 'push_refused', repo_id: repoId, refs: commands.length, reason: refusal });
      }
      return refusal;
    },
    onProcReceive: async ({ commands, pushOptions }) => {
      const { pushSeconds, pushes, effectsQueued } = pusher.metrics;
      const stop = pushSeconds.startTimer();
      const decision = await decidePush(pusher, {
        ...target,
        caller: push.caller,
        repoQuota: push.repoQuota,
        signature,
        forwardOnly,
        repoId: address.repoId,
        claimNumber: address.claimNumber ?? null,
        announced,
        commands,
        readBrought,
        pruneWatch,
        pushOptions: pushOptions.map((option) => option.toString('utf8')),
      });
      stop();
      pushes.inc({ outcome: decision.outcome });
      effectsQueued.inc(decision.effectsQueued);
      isCommitted = decision.outcome === 'committed';
      return decision;
    },
  });

  if (end.inputError !== null && !response.headersSent) throw end.inputError;
  if (end.inputError instanceof HttpError) {
    pusher.metrics.pushes.inc({ outcome: 'refused' });
    countRefusal(pusher.metrics, end.inputError.status);
    pusher.log.info({
      event: 'push_refused',
      repo_id: address.repoId,
      refs: preamble.commands.length,
      reason: end.inputError.message,
    });
  } else if (end.exitCode !== 0) {
    pusher.log.warn({
      event: 'receive_pack_failed',
      repo_id: address.repoId,
      code: end.exitCode,
      errors: end.errors,
    });
    await pusher.guard.suspect(address.repoId, target.folder);
  } else if (announced.length === 0) {
    pusher.metrics.pushes.inc({ outcome: 'refused' });
    pusher.log[saysNoRoom(end.errors) ? 'error' : 'info']({
      event: 'push_not_unpacked',
      repo_id: address.repoId,
      refs: preamble.commands.length,
      errors: end.errors,
    });
  }
  if (!response.headersSent) {
    if (end.exitCode !== 0)
      throw new HttpError(500, 'git could not take the push; the server log has the cause');
    // A client that asks for no report gets none.
    response.writeHead(200, { ...NO_CACHE, 'content-type': RESULT_TYPE });
  }
  // An answer that breaks off must look like it: git waits for ever for the rest of one that ends properly.
  if (end.isAnswered) endAnswer(response);
  else response.destroy();
  // A result is in nobody's way, so its reader can do it; but in an adopted repository that may be git by itself.
  if (isCommitted && (target.claimRef === null || (await adoptedAs(folder)) !== null))
    await refreshing(pusher, address.repoId, () => pusher.refs.followPush(address.repoId, target));
}

/** Git is the authority over what it read: the certificate has to be the one that was checked, and its nonce ours. */
function signatureFault(signature: Signature | null, { oid, nonceStatus }: CertificateFacts): string | null {
  if (signature === null) return null;
  return oid === signature.certOid
    ? nonceFault(nonceStatus)
    : 'git read another push certificate than this server';
}

/** Nothing depends on it: every reader looks by itself, and git finds a push whole without it, only later. */
async function refreshing(pusher: Pusher, repoId: string, refresh: () => Promise<unknown>): Promise<void> {
  try {
    await refresh();
  } catch (error) {
    pusher.log.warn({ event: 'ref_cache_not_refreshed', repo_id: repoId, error });
  }
}

async function* concat(first: Buffer, rest: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void, void> {
  yield first;
  yield* rest;
}
