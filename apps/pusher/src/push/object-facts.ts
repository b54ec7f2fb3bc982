import { lookUpObjects, type LookUpOptions } from '../git/look-up-objects.ts';
import { treeOf, type ReadBrought } from './brought-objects.ts';

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

/** For more, a git process is cheaper than a look for each. */
const BROUGHT_MAX = 8;

/** Looks at those that the push brought, if there are only a few, and looks up the others in one git process. */
export async function readObjectFacts(
  oids: Iterable<string>,
  git: Omit<LookUpOptions, 'withContent'>,
  readBrought?: ReadBrought,
): Promise<FactsByOid> {
  const distinct = [...new Set(oids)];
  const facts = new Map<string, ObjectFacts>();
  if (readBrought !== undefined && distinct.length <= BROUGHT_MAX) {
    for (const oid of distinct) {
      const found = await factsOf(oid, readBrought, TAGS_MAX);
      if (found !== null) facts.set(oid, found);
    }
  }
  const open = distinct.filter((oid) => !facts.has(oid));
  const found = await lookUpObjects(
    open.flatMap((oid) => [oid, `${oid}^{commit}`, `${oid}^{commit}^{tree}`]),
    git,
  );
  for (const [index, oid] of open.entries()) {
    facts.set(oid, {
      kind: found[3 * index]?.kind ?? null,
      commit: found[3 * index + 1]?.oid ?? null,
      tree: found[3 * index + 2]?.oid ?? null,
    });
  }
  return facts;
}

/** Tags of tags that are followed here; git follows any number. */
const TAGS_MAX = 4;

/** Null: git has to say. That what a commit or tag names is there is what git made sure of when it took the push. */
async function factsOf(oid: string, read: ReadBrought, tagsMax: number): Promise<ObjectFacts | null> {
  const object = await read(oid);
  if (object === null) return null;
  const { kind, content } = object;
  if (kind === 'commit') return { kind, commit: oid, tree: treeOf(object) ?? null };
  if (kind !== 'tag') return { kind, commit: null, tree: null };
  const [, target = '', type] =
    /^object ([0-9a-f]+)\ntype ([a-z]+)\n/.exec(content.toString('latin1', 0, 200)) ?? [];
  if (type === 'tree' || type === 'blob') return { kind, commit: null, tree: null };
  const led = tagsMax === 0 ? null : await factsOf(target, read, tagsMax - 1);
  return led === null ? null : { ...led, kind };
}
