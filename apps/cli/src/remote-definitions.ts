import { DEFINITION_FILE, DEFINITION_PREFIX } from '@sluice/effect-spec';
import type { Git } from './git.ts';
import { fetchRemoteFiles, listRemoteRefs, type RemoteRef } from './remote-refs.ts';

/** A definition's ref on the remote. */
export interface RemoteDefinition extends RemoteRef {
  readonly name: string;
}

const DEFINITIONS_MAX = 1000;

/** The definitions a remote has now, or the one called `name`. */
export async function listDefinitions(
  git: Git,
  remote: string,
  { name = '*', mayBeNew = false }: { name?: string; mayBeNew?: boolean } = {},
): Promise<RemoteDefinition[]> {
  const refs = await listRemoteRefs(git, remote, { patterns: [`${DEFINITION_PREFIX}${name}`], mayBeNew });
  // A pattern of ls-remote matches the end of a ref as well.
  const ours = refs.slice(0, DEFINITIONS_MAX).filter(({ ref }) => ref.startsWith(DEFINITION_PREFIX));
  return ours.map(({ ref, oid }) => ({ ref, oid, name: ref.slice(DEFINITION_PREFIX.length) }));
}

/** The texts of definitions, in their order; undefined where a commit holds no `effect.yaml`. */
export async function readDefinitions(
  git: Git,
  remote: string,
  definitions: readonly RemoteDefinition[],
): Promise<(Buffer | undefined)[]> {
  return await fetchRemoteFiles(git, remote, definitions, DEFINITION_FILE);
}
