import type { Oid } from './oid.ts';

/** One ref of a push: what it must be now, and what it shall be. */
export interface RefEdit {
  /** Full name, such as `refs/heads/main`. */
  name: string;
  /** What the ref must be for the push to be accepted; `any` accepts whatever it is. */
  expect: 'any' | 'absent' | (Oid & {});
  /** New value; null deletes the ref. */
  to: Oid | null;
}

/** An edit that changed something. */
export interface AppliedEdit {
  name: string;
  /** Value before; null: the ref did not exist. */
  oldOid: Oid | null;
  /** Value after; null: the ref was deleted. */
  newOid: Oid | null;
}

/** Why a ref of a refused push was not changed. */
export interface Refusal {
  name: string;
  /**
   * `bad_name`, `duplicate`, `stale` (the ref is not what the push expected), `conflict` (a name would be both a ref
   * and a directory), `certificate` (used before), or `not_applied`: nothing is wrong with this ref, another one of
   * the push was refused.
   */
  code: 'bad_name' | 'duplicate' | 'stale' | 'conflict' | 'certificate' | 'not_applied';
  /** One line for the person who pushed. */
  reason: string;
}
