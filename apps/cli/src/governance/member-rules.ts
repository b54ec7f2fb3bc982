import { hasSigningAdmin, ownerOfKey, type Member } from '@sluice/effect-spec';
import { CommandError } from '../command-error.ts';
import { shownRemote } from '../without-credentials.ts';
import type { PublicKey } from './public-key.ts';
import type { RemoteMember } from './remote-governance.ts';

type Named = Pick<RemoteMember, 'name' | 'member'>;

/** A key stands for one member: of two with the same key nobody could tell who signed. */
export function assertKeyIsFree(
  members: readonly Named[],
  name: string,
  { key, fingerprint }: PublicKey,
): void {
  const others = members.filter((one) => one.name !== name);
  const owner = ownerOfKey(new Map(others.map((one) => [one.name, one.member])), key);
  if (owner === undefined) return;
  throw new CommandError(
    owner.member.revoked
      ? `expected a key of ${name}, got ${fingerprint} of ${owner.name}, who was revoked: it counts for nobody any more`
      : `expected a key of ${name}, got ${fingerprint}, which is that of ${owner.name}`,
    `Take another key of ${name}; ssh-keygen -t ed25519 makes a new one.`,
  );
}

/** Without an admin who can sign nobody could change anything any more. */
export function assertAdminRemains(
  members: readonly Named[],
  changed: { name: string; member: Member },
  remote: string,
): void {
  const after = new Map(members.map((one) => [one.name, one.member])).set(changed.name, changed.member);
  if (hasSigningAdmin(after)) return;
  const { name, member } = changed;
  throw new CommandError(
    members.length === 0
      ? `expected an admin as the first member of ${shownRemote(remote)}, got the ${member.role} ${name}: without an admin nobody could push any more`
      : `expected another admin besides ${name}, got none: without an admin nobody could push to ${shownRemote(remote)} any more`,
    'Add an admin first: sluice member add <name> --key <file.pub> --role admin.',
  );
}
