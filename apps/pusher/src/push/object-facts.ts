import { lookUpObjects, type LookUpOptions } from '../git/look-up-objects.ts';

/** What an OID of a push names. */
export interface ObjectFacts {
  /** commit, tree, blob or tag; null: there is no such object. */
  kind: string | null;
  /** The commit it is, or that a tag leads to; null: none. */
  commit: string | null;
  /** That commit's tree. */
  tree: string | null;
}

export type FactsByOid = ReadonlyMap<string, ObjectFacts>;

/** Looks all of them up in one git process. */
export async function readObjectFacts(
  oids: Iterable<string>,
  git: Omit<LookUpOptions, 'withContent'>,
): Promise<FactsByOid> {
  const distinct = [...new Set(oids)];
  const found = await lookUpObjects(
    distinct.flatMap((oid) => [oid, `${oid}^{commit}`, `${oid}^{commit}^{tree}`]),
    git,
  );
  return new Map(
    distinct.map((oid, index) => [
      oid,
      {
        kind: found[3 * index]?.kind ?? null,
        commit: found[3 * index + 1]?.oid ?? null,
        tree: found[3 * index + 2]?.oid ?? null,
      },
    ]),
  );
}
