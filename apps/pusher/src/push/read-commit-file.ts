import { lookUpObjects, type LookUpOptions } from '../git/look-up-objects.ts';

/** A file at the root of a commit, or why it cannot be read. */
export type CommitFile = { content: Buffer } | { problem: string };

const BYTES_MAX = 64 * 1024;

/** Reads one small file of each of several commits, in at most two git processes; the answers are in their order. */
export async function readCommitFiles(
  wanted: readonly { commit: string; file: string }[],
  git: Omit<LookUpOptions, 'withContent'>,
): Promise<CommitFile[]> {
  // Sizes first: a file is read only if it can be what is expected.
  const found = await lookUpObjects(
    wanted.map(({ commit, file }) => `${commit}:${file}`),
    git,
  );
  const small = found.flatMap((one) =>
    one !== null && one.kind === 'blob' && one.bytes <= BYTES_MAX ? [one.oid] : [],
  );
  const contents = await lookUpObjects(small, { ...git, withContent: true });
  const byOid = new Map(
    contents.flatMap((one) => (one?.content === undefined ? [] : [[one.oid, one.content]])),
  );
  return wanted.map(({ file }, index) => {
    const one = found[index];
    const content = byOid.get(one?.oid ?? '');
    if (content !== undefined) return { content };
    return one?.kind === 'blob'
      ? { problem: `${file}: expected at most ${BYTES_MAX} bytes, got ${one.bytes}` }
      : { problem: `expected a file ${file} in the commit, got none` };
  });
}
