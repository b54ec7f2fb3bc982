import type { RepoQuota } from '@sluice/access';
import type { Member } from '@sluice/effect-spec';
import type { ObjectFormat, RefEdit, RefRow } from '@sluice/ref-store';
import type { PruneWatch } from '../store/watch-prunes.ts';
import type { Signature } from './admit-signature.ts';
import type { Governance } from './governance.ts';
import type { FactsByOid } from './object-facts.ts';
import type { PushCaller } from './push-caller.ts';
import type { LoadedDefinition } from './read-definitions.ts';
import type { GoverningRefs } from './read-governing-refs.ts';
import type { Result } from './read-result.ts';

/** A push whose objects are in place, ready to be committed. */
export interface PushToCommit {
  repoId: string;
  objectFormat: ObjectFormat;
  edits: readonly RefEdit[];
  facts: FactsByOid;
  /** Reads definitions at these commits. */
  definitionsAt: (oids: readonly string[]) => Promise<Map<string, LoadedDefinition>>;
  effectsMax: number;
  /** Most refs that it may leave in the repository, results aside. */
  refsMax: number;
  /** What `git push -o` said. */
  pushOptions: readonly string[];
  /** Looks, once the repository is locked, whether objects of the push were taken out of it. */
  pruneWatch?: PruneWatch | undefined;
  /** Refs that were found to move to a descendant of what they were; others may do so too. */
  forward: ReadonlySet<string>;
  /** What it makes of members, by their names. */
  members: ReadonlyMap<string, Member>;
  /** Who pushes. */
  caller: PushCaller;
  /** Holds the push back if it makes a repository; a hook's never does. */
  repoQuota?: RepoQuota | undefined;
  /** Who signed it, and what. */
  signature: Signature | null;
  /** Reads who may push what, from the refs that say so. */
  governanceOf: (refs: GoverningRefs) => Promise<Governance>;
  /** How long the files of members are together. */
  memberBytesOf: (members: readonly RefRow[]) => Promise<number>;
  /** Set for a dispatcher's result push: the claim it completes, and what the result says. */
  result: { claimNumber: bigint; content: Result } | null;
  /** Called when only COMMIT is left: from then on, and not before, the push may be accepted. */
  onReady: (outcome: CommittedPush) => void;
}

export interface CommittedPush {
  status: 'committed';
  pushId: string;
  lines: readonly string[];
  effectsQueued: number;
}

export type CommitOutcome =
  | CommittedPush
  | { status: 'unchanged'; lines: readonly string[] }
  /** Nothing was written. Each ref has its reason, or all have the same one. */
  | { status: 'refused'; reasons: ReadonlyMap<string, string> | string };
