import { createHash } from 'node:crypto';
import { keyOfSignature, MEMBER_PREFIX } from '@sluice/effect-spec';
import { hashObject, type ObjectFormat, type Oid } from '@sluice/ref-store';
import type { Settings } from '../settings.ts';
import type { Preamble } from '../wire/preamble.ts';
import { UNGOVERNED, type Governance } from './governance.ts';
import { judgePush, type Admitted, type Attempt, type Refused } from './judge-push.ts';
import type { PushCaller } from './push-caller.ts';
import type { PushContext } from './push-context.ts';
import { toEdit } from './to-edit.ts';
import { isSignedBy, judgeCertificate } from './verify-certificate.ts';

/** A signature that was checked. Whether its key may do what it signed is judged again when the push commits. */
export interface Signature {
  /** The public key that made it. */
  key: string;
  certificate: Buffer;
  /** SHA-256 of what was signed: it counts once, whatever spelling of its signature comes with it. */
  signedHash: Buffer;
  /** What git has to call the certificate, if it read the same one. */
  certOid: Oid;
}

/** What it takes to judge who pushes and who signed. */
export interface AdmitContext extends Pick<PushContext, 'db' | 'governance' | 'home'> {
  settings: Pick<Settings, 'gitMemoryBytesMax'>;
}

export interface PushToAdmit {
  repoId: string;
  folder: string;
  objectFormat: ObjectFormat;
  preamble: Preamble;
  caller: Pick<PushCaller, 'roles' | 'isServerAdmin' | 'isUser'>;
  /** Set for a dispatcher's result push, which stands for its claim and not for a member. */
  claimRef: string | null;
  /** Whether the push would make the repository. */
  isFirst: boolean;
}

/**
 * Judges a push by who pushes, who signed, and the policy, as far as that is possible before git reads it. Starts git and
 * `ssh-keygen`, one after the other, so who calls it has a slot.
 */
export async function admitSignature(context: AdmitContext, push: PushToAdmit): Promise<SignatureJudgement> {
  const { settings, db, home } = context;
  const { repoId, folder, objectFormat, preamble, caller } = push;
  const { certificate, pushOptions } = preamble;
  if (push.claimRef !== null) {
    if (certificate === null) return { signature: null, forwardOnly: new Map() };
    return { refused: 'expected an unsigned push: a result is pushed in the name of its claim' };
  }
  const governance = push.isFirst
    ? UNGOVERNED
    : await context.governance.read(db, repoId, {
        folder,
        home,
        memoryBytesMax: settings.gitMemoryBytesMax,
      });
  return await checkSignature(governance, {
    certificate,
    certificateFault: certificate === null ? null : judgeCertificate(certificate, { repoId, pushOptions }),
    commands: preamble.commands,
    objectFormat,
    roles: caller.roles(repoId),
    isServerAdmin: caller.isServerAdmin,
    isUser: caller.isUser,
    verify: isSignedBy,
  });
}

/** Not refused so far, with the signature that was found to be good, if there has to be one. */
export type SignatureJudgement = ({ signature: Signature | null } & Pick<Admitted, 'forwardOnly'>) | Refused;

export interface PushToCheck
  extends
    Pick<Preamble, 'certificate' | 'commands' | 'objectFormat'>,
    Pick<Attempt, 'roles' | 'isServerAdmin' | 'isUser'> {
  /** What is wrong with the certificate, the signature left aside. */
  certificateFault: string | null;
  /** Whether the key made the signature. */
  verify: typeof isSignedBy;
}

/** Judges a push by what governs its repository, and by the signature it has or lacks. */
export async function checkSignature(governance: Governance, push: PushToCheck): Promise<SignatureJudgement> {
  const { certificate, commands, objectFormat, roles, isServerAdmin, isUser } = push;
  if (certificate !== null && governance.members === null) {
    return {
      refused: `expected an unsigned push: there is nothing below ${MEMBER_PREFIX} to check a signature against`,
    };
  }
  const key = certificate === null ? null : (keyOfSignature(certificate.signature) ?? null);
  if (certificate !== null && key === null) return { refused: 'expected a signature with an SSH key' };
  const edits = commands.map((command) => toEdit(command, objectFormat));
  const judgement = await judgePush(governance, { edits, roles, key, isServerAdmin, isUser });
  if ('refused' in judgement) return judgement;
  const { signer, forwardOnly } = judgement;
  if (certificate === null || key === null || signer === null) return { signature: null, forwardOnly };
  if (push.certificateFault !== null) return { refused: push.certificateFault };
  if (!(await push.verify(certificate, key)))
    return { refused: 'the signature is not one over this push certificate' };
  const { bytes, signed } = certificate;
  const signedHash = createHash('sha256').update(signed).digest();
  const certOid = hashObject(objectFormat, 'blob', bytes);
  return { signature: { key, certificate: bytes, signedHash, certOid }, forwardOnly };
}
