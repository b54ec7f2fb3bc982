import type { DB } from '@sluice/db';
import {
  admits,
  hasAdmin,
  hasSigningAdmin,
  isGoverning,
  keyOfSignature,
  ownerOfKey,
  parsePushCertificate,
  RESULT_PREFIX,
  ruleInForce,
  type Policy,
  type PushCertificate,
  type Role,
} from '@sluice/effect-spec';
import { readObjects, requestOf, sshKeygenVerifies, type LoggedPush, type Oid } from '@sluice/ref-store';
import type { Kysely } from 'kysely';
import type { RepoObjects } from '../rebuild/repo-objects.ts';
import { PastGovernance } from './past-governance.ts';

/** What a record has to show for a push that a member signed. */
interface Signed {
  /** The member's, as the record has it. */
  name: string;
  /** The public key that the certificate names. */
  key: string;
  certificate: PushCertificate;
}

/** Who deletes refs whose objects are lost, as their record has it. */
const OPERATOR = 'operator';

/**
 * Checks what the members of a repository signed: the certificate in a record is signed with the key that it names,
 * this was a key of the member in the record, who was not revoked then and had a role that the policy of the time let
 * in, and what was signed is what the push did. What nobody signed needed no signature by that policy.
 */
export class SignedPushes {
  readonly #repoId: string;
  readonly #past: PastGovernance;
  #unread = 0;

  constructor({ repoId, objects }: { repoId: string; objects: RepoObjects }) {
    this.#repoId = repoId;
    this.#past = new PastGovernance(objects);
  }

  /** Pushes for which the members or the policy of their time cannot be read. */
  get unread(): number {
    return this.#unread;
  }

  /** All but the signature. To be called for every push, in the order of the log, with the refs before it. */
  async check(db: Kysely<DB>, push: LoggedPush, refs: ReadonlyMap<string, Oid>): Promise<string[]> {
    const signed = await this.#readSigned(db, push);
    const faults = typeof signed === 'string' ? [signed] : [];
    if (signed === null) faults.push(...(await this.#faultsOfUnsigned(db, push)));
    else if (typeof signed !== 'string') {
      faults.push(...faultsOfText(signed, push, refs), ...(await this.#faultsOfKey(db, signed, push)));
    }
    this.#past.apply(push.edits);
    return faults;
  }

  /** Whether the certificate is signed with the key that it names, if there is one and it can be read. */
  async checkSignature(db: Kysely<DB>, push: LoggedPush): Promise<string[]> {
    const signed = await this.#readSigned(db, push);
    if (signed === null || typeof signed === 'string') return [];
    const isGood = await sshKeygenVerifies(signed.certificate, signed.key);
    return isGood ? [] : ['its certificate is not signed with the key that it names'];
  }

  /** Null: nobody signed it. A text says why it cannot be what its record says. */
  async #readSigned(db: Kysely<DB>, { certOid, signer }: LoggedPush): Promise<Signed | string | null> {
    const [, name] = /^member:(.*)$/.exec(signer ?? '') ?? [];
    if (certOid === null)
      return name === undefined ? null : 'it names a member who signed, but no certificate';
    if (name === undefined) return 'it has a certificate, but names no member who signed';
    const stored = (await readObjects(db, { repoId: this.#repoId, oids: [certOid] })).get(certOid);
    if (stored === undefined) return 'its certificate is not stored, or was changed';
    const certificate = parsePushCertificate(Buffer.from(stored.bytes), { refsMax: Number.MAX_SAFE_INTEGER });
    if (typeof certificate === 'string') return `its certificate cannot be read: ${certificate}`;
    const key = keyOfSignature(certificate.signature);
    return key === undefined ? 'its certificate is not signed with an SSH key' : { name, key, certificate };
  }

  /** Whose key it was before the push, and for what. */
  async #faultsOfKey(db: Kysely<DB>, { name, key }: Signed, { edits }: LoggedPush): Promise<string[]> {
    const governed = await this.#past.read(db);
    if (governed === null) {
      this.#unread += 1;
      return [];
    }
    const owner = ownerOfKey(governed.members, key);
    if (owner?.member.revoked === true)
      return [`it is signed with a key of ${owner.name}, who was revoked by then`];
    const own = governed.members.get(name);
    if (own?.keys.includes(key) !== true) return [`it is signed with a key that was none of ${name} then`];
    return faultsOfRole(own.role, edits, governed.policy);
  }

  /**
   * What needed a signature then. A result stands for its claim, and an operator deletes what was lost. Members and
   * policy that can be read were not: else whoever has the server's key could begin anew with members of its own.
   */
  async #faultsOfUnsigned(db: Kysely<DB>, { edits, signer }: LoggedPush): Promise<string[]> {
    const judged = edits.filter(({ name, newOid }) => {
      const mayBeLost = newOid === null && signer === OPERATOR && !isGoverning(name);
      return isRuled({ name }) && !name.startsWith(RESULT_PREFIX) && !mayBeLost;
    });
    if (judged.length === 0 || !this.#past.hasMembers) return [];
    const governed = await this.#past.read(db);
    if (governed === null) {
      this.#unread += 1;
      return [];
    }
    // Without an admin nobody could sign for anything, and without one who can sign, for members and policy: whoever
    // runs the server repaired that.
    const { members } = governed;
    if (!hasAdmin(members.values())) return [];
    if (edits.every(({ name }) => isGoverning(name)) && !hasSigningAdmin(members)) return [];
    return judged
      .filter(({ name }) => ruleInForce(governed.policy, name).attestation.value === 'required')
      .map(({ name }) => `nobody signed it, and ${name} needed a signature then`);
  }
}

/** Whether the policy has anything to say: names of another kind were put there by hand, and fit no record. */
function isRuled({ name }: { name: string }): boolean {
  return name.startsWith('refs/');
}

/** What the policy kept from everybody with this role, as far as names tell: whether a move was forced, they do not. */
function faultsOfRole(role: Role, edits: LoggedPush['edits'], policy: Policy): string[] {
  return edits.filter(isRuled).flatMap(({ name, newOid }) => {
    const rule = ruleInForce(policy, name);
    const { value: allowed } = rule.roles;
    return [
      ...(admits(allowed, [role])
        ? []
        : [`its signer had the role ${role} then, and ${name} was for ${allowed.join(', ') || 'nobody'}`]),
      ...(newOid === null && !rule.delete.value ? [`it deletes ${name}, which nobody might do then`] : []),
    ];
  });
}

/** Whether the member signed what the push did: every ref that changed, and nothing that did not come true. */
function faultsOfText({ certificate }: Signed, push: LoggedPush, refs: ReadonlyMap<string, Oid>): string[] {
  const edits = new Map(push.edits.map((edit) => [edit.name, edit]));
  const names = certificate.commands.map(({ name }) => name.toString('utf8'));
  const isDone = certificate.commands.every(({ oldOid, newOid }, index) => {
    const [before, after] = [oidOf(oldOid), oidOf(newOid)];
    const edit = edits.get(names[index]!);
    if (edit === undefined) return (refs.get(names[index]!) ?? null) === after;
    return edit.oldOid === before && edit.newOid === after;
  });
  const isSigned = push.edits.every(({ name }) => names.includes(name));
  const recorded = push.body === null ? [] : requestOf(push.body).pushOptions;
  // Records that were made before they had a place for push options have none.
  const hasOptions = recorded.length === 0 || isSameList(recorded, certificate.pushOptions);
  return [
    ...(isDone && isSigned ? [] : ['its certificate is over other edits than its own']),
    ...(hasOptions ? [] : ['its push options are not those that were signed']),
  ];
}

function oidOf(digits: string): Oid | null {
  return /^0+$/.test(digits) ? null : digits;
}

function isSameList(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((one, index) => one === b[index]);
}
