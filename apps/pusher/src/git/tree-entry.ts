/** What a tree has under a name. */
export interface TreeEntry {
  /** As git writes it: `100644` a file, `100755` one to run, `120000` a link, `160000` a submodule, `40000` a folder. */
  mode: string;
  oid: string;
}

/** Finds a name in the content of a tree: entries are `<mode> <name>`, NUL and the OID's bytes. */
export function treeEntry(tree: Buffer, file: string, oidBytes: number): TreeEntry | undefined {
  for (let at = 0; at < tree.length;) {
    const nul = tree.indexOf(0, at);
    if (nul === -1) return undefined;
    const [, mode, name] = /^(\d+) (.*)$/s.exec(tree.toString('utf8', at, nul)) ?? [];
    const end = nul + 1 + oidBytes;
    if (name === file && mode !== undefined) return { mode, oid: tree.toString('hex', nul + 1, end) };
    at = end;
  }
  return undefined;
}
