import { zeroOid, type ObjectFormat, type RefEdit } from '@sluice/ref-store';
import type { Command } from '../wire/preamble.ts';

/** What a command asks for a ref: git writes an absent value as zeros. */
export function toEdit({ name, oldOid, newOid }: Command, objectFormat: ObjectFormat): RefEdit {
  const zero = zeroOid(objectFormat);
  return {
    name: name.toString('utf8'),
    expect: oldOid === zero ? 'absent' : oldOid,
    to: newOid === zero ? null : newOid,
  };
}
