import { parsePushCertificate, type PushCertificate } from '@sluice/effect-spec';
import { checkPushOption, NOT_APPLIED, readRepo, type ObjectFormat } from '@sluice/ref-store';
import { nonceFault } from '../git/certificate-nonce.ts';
import { lookUpObjects } from '../git/look-up-objects.ts';
import { checkSignature, type SignatureJudgement } from '../push/admit-signature.ts';
import { decidePush, isSameList } from '../push/decide-push.ts';
import { judgeCommands, refuseAll, reportsOf } from '../push/push-gate.ts';
import type { CertificateFacts, Decision } from '../push/receive-pack.ts';
import { toEdit } from '../push/to-edit.ts';
import { isSignedBy } from '../push/verify-certificate.ts';
import type { Command } from '../wire/preamble.ts';
import type { HandedOver } from '../wire/proc-receive.ts';
import type { RefReport } from '../wire/report-status.ts';
import { hookCaller } from './hook-caller.ts';
import { judgeLikeGit } from './judge-like-git.ts';
import type { AdoptedRepository } from './open-adopted.ts';
import type { PushNote } from './push-note.ts';
import { refreshAdopted } from './refresh-adopted.ts';

export interface PushToTake extends HandedOver {
  /** Null: pre-receive did not run. */
  note: PushNote | null;
  /** The environment that git gave its hook. */
  env: Readonly<Record<string, string | undefined>>;
}

/** Takes one push to an adopted repository, from git's list to refs on disk. */
export async function takePush(adopted: AdoptedRepository, push: PushToTake): Promise<Decision> {
  const { repoId, folder, home, settings, log } = adopted;
  const { commands, note, env } = push;
  const memoryBytesMax = settings.gitMemoryBytesMax;
  const refuse = (reports: RefReport[]): Decision => {
    const reason = reports.find((report) => report.reason !== NOT_APPLIED)?.reason ?? NOT_APPLIED;
    log.info({ event: 'push_refused', repo_id: repoId, refs: reports.length, reason });
    return { reports, lines: [] };
  };
  const state = await readRepo(adopted.db, repoId);
  if (state === undefined || note === null) return refuse(refuseAll(commands, NOT_INSTALLED));
  // After a crash between a commit and this, it is here that the refs on disk catch up.
  await refreshAdopted(adopted);
  const { objectFormat } = state;
  const gate = { objectFormat, claimRef: null };
  const reports = judgeAsGiven(push, note, settings.refsPerPushMax) ?? judgeCommands(commands, gate);
  if (reports !== null) return refuse(reports);
  const caller = hookCaller(settings);
  const admission = await admit(adopted, { commands, objectFormat, certificate: note.certificate });
  if ('refused' in admission) return refuse(reportsOf(commands, admission.refused));
  const edits = commands.map((command) => toEdit(command, objectFormat));
  const faults = await judgeLikeGit({ folder, home, objectFormat, edits, env, memoryBytesMax });
  if (faults.size > 0) return refuse(reportsOf(commands, faults));
  const decision = await decidePush(adopted, {
    ...gate,
    ...admission,
    repoId,
    folder,
    claimNumber: null,
    announced: note.announced,
    commands,
    pushOptions: push.pushOptions.map((option) => option.toString('utf8')),
    caller,
  });
  return decision.outcome === 'refused' ? decision : await conclude(adopted, decision);
}

/** While the hook is being installed, and where that was cut off. */
export const NOT_INSTALLED =
  'this repository is only half taken over by Sluice; push again in a moment, or have its hook installed again on the server';

/** What a server of its own would have judged in the opening of a push. */
function judgeAsGiven(
  { commands, pushOptions }: PushToTake,
  note: PushNote,
  refsMax: number,
): RefReport[] | null {
  if (!isSameList(commands, note.announced)) return refuseAll(commands, NOT_APPLIED);
  if (commands.length > refsMax) {
    const reason = `expected at most ${refsMax} refs in one push, got ${commands.length}; push them in several parts`;
    return refuseAll(commands, reason);
  }
  const fault = pushOptions.map(checkPushOption).find((one) => one !== null);
  return fault === undefined ? null : refuseAll(commands, fault);
}

async function admit(
  adopted: AdoptedRepository,
  push: { commands: Command[]; objectFormat: ObjectFormat; certificate: CertificateFacts },
): Promise<SignatureJudgement> {
  const { repoId, folder, home, settings } = adopted;
  const { commands, objectFormat } = push;
  const governance = await adopted.governance.read(adopted.db, repoId, {
    folder,
    home,
    memoryBytesMax: settings.gitMemoryBytesMax,
  });
  // Where nobody is a member a client may sign all the same, and nobody looks at it.
  const certificate = governance.members === null ? null : await readCertificate(adopted, push);
  if (typeof certificate === 'string') return { refused: certificate };
  const { roles, isServerAdmin, isUser } = hookCaller(settings);
  return await checkSignature(governance, {
    certificate,
    // For which repository it was made is in the nonce: here each has a seed of its own.
    certificateFault: certificate === null ? null : nonceFault(push.certificate.nonceStatus),
    commands,
    objectFormat,
    roles: roles(repoId),
    isServerAdmin,
    isUser,
    verify: isSignedBy,
  });
}

/** The certificate as git stored it; a text says what is wrong with it. */
async function readCertificate(
  { folder, home, settings }: AdoptedRepository,
  { certificate: { oid }, commands }: { certificate: CertificateFacts; commands: Command[] },
): Promise<PushCertificate | string | null> {
  if (oid === '') return null;
  const [found] = await lookUpObjects([oid], {
    folder,
    home,
    memoryBytesMax: settings.gitMemoryBytesMax,
    withContent: true,
  });
  const parsed = parsePushCertificate(found?.content ?? Buffer.alloc(0), {
    refsMax: settings.refsPerPushMax,
  });
  if (typeof parsed === 'string' || isSameList(parsed.commands, commands)) return parsed;
  return 'git read another list of refs than was signed';
}

/** Fetches are answered from the refs on disk, so these are in place before the client hears of its push. */
async function conclude(adopted: AdoptedRepository, decision: Decision): Promise<Decision> {
  try {
    await refreshAdopted(adopted);
    return decision;
  } catch (error) {
    adopted.log.error({ event: 'refs_not_refreshed', repo_id: adopted.repoId, error });
    const line =
      'the push is accepted, but the refs on disk could not be written: fetches show it after the next push';
    return { ...decision, lines: [...decision.lines, line] };
  }
}
