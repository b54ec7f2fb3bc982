/** What a tree has under a name. */
export interface TreeEntry {
  /** As git writes it: `100644` a file, `100755` one to run, `120000` a link, `160000` a submodule, `40000` a folder. */
  mode: string;
  oid: string;
}

const FILE_MODES = new Set(['100644', '100664', '100755']);

/** Whether an entry of this mode is a file. Of a link, git would give the path that it names for what the file holds. */
export function isFileMode(mode: string | undefined): boolean {
  return mode !== undefined && FILE_MODES.has(mode);
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
