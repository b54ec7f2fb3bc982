import type { ServerResponse } from 'node:http';
import type { RepoQuota } from '@sluice/access';
import type { ObjectFormat, RepoState } from '@sluice/ref-store';
import { adoptedAs } from '../git/adopted-folder.ts';
import { nonceFault } from '../git/certificate-nonce.ts';
import { gitEnvironment } from '../git/git-environment.ts';
import { saysNoRoom } from '../git/no-room.ts';
import { receivePackConfiguration } from '../git/serve-configuration.ts';
import { HttpError } from '../http-error.ts';
import type { Signature, SignatureJudgement } from '../push/admit-signature.ts';
import { expectObjects } from '../push/brought-objects.ts';
import { decidePush, isSameList } from '../push/decide-push.ts';
import { runReceivePack, type CertificateFacts } from '../push/receive-pack.ts';
import { judgeGrowth } from '../store/repo-growth.ts';
import { watchPrunes } from '../store/watch-prunes.ts';
import type { Command, Preamble } from '../wire/preamble.ts';
import { endAnswer, NO_CACHE } from './answer.ts';
import type { Caller } from './caller.ts';
import { countRefusal } from './count-refusal.ts';
import type { Pusher } from './pusher.ts';
import type { RepoAddress } from './route.ts';

/** What the answer to a push is. */
export const RESULT_TYPE = 'application/x-git-receive-pack-result';

/** Where a push goes. */
export interface Target {
  folder: string;
  objectFormat: ObjectFormat;
  claimRef: string | null;
  /** As it was before the push; undefined: there was no such repository. */
  state: RepoState | undefined;
  /** Whether the push would make the repository. */
  isFirst: boolean;
}

/** Has git take a push that was let in, decides it, and answers. */
export async function receivePush(
  pusher: Pusher,
  push: {
    address: RepoAddress;
    target: Target;
    caller: Caller;
    repoQuota: RepoQuota;
    admission: Exclude<SignatureJudgement, { refused: unknown }>;
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
  await using growing = new AsyncDisposableStack();
  // What git looks through to see whether a push is whole ends at the refs on disk.
  if (state !== undefined)
    await refreshing(pusher, address.repoId, () =>
      pusher.refs.preparePush(address.repoId, { state, folder }),
    );
  const readBrought = await expectObjects(target.folder, target.objectFormat);
  const pruneWatch = await watchPrunes({
    folder: target.folder,
    home: pusher.home,
    memoryBytesMax: settings.gitMemoryBytesMax,
  });
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
    onPreReceive: async ({ commands, certificate, quarantine }) => {
      announced = commands;
      let refusal = isSameList(commands, preamble.commands)
        ? signatureFault(signature, certificate)
        : 'git read another list of refs than this server';
      const bytesMax = target.claimRef === null ? settings.repoBytesMax : undefined;
      if (refusal === null && quarantine !== null && bytesMax !== undefined) {
        const growth = await judgeGrowth({ folder, quarantine, bytesMax });
        growing.defer(growth.end);
        refusal = growth.fault;
      }
      if (refusal !== null) {
        pusher.metrics.pushes.inc({ outcome: 'refused' });
        const { repoId } = address;
        pusher.log.info({ event: 'push_refused', repo_id: repoId, refs: commands.length, reason: refusal });
      }
      return refusal;
    },
    onProcReceive: async ({ commands, pushOptions }) => {
      await growing.disposeAsync();
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
