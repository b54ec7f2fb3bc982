import { setImmediate as othersFirst } from 'node:timers/promises';
import { createTreeChecker, UnsafeTreeError, type TreeEntry, type TreeLimits } from './check-tree-entries.ts';

/** A second of work for half a million names, in which heartbeats, claims and other effects would stand still. */
const CHECKED_AT_ONCE = 5_000;

/** Checks each line of a listing that `git ls-tree -z` made, and lets everybody else have a turn now and then. */
export async function checkListing(listing: string, limits: TreeLimits): Promise<void> {
  const check = createTreeChecker(limits);
  for (let [at, count] = [0, 1]; at < listing.length; count += 1) {
    const end = listing.indexOf('\0', at);
    check(parseEntry(listing.slice(at, end === -1 ? listing.length : end)));
    at = end === -1 ? listing.length : end + 1;
    if (count % CHECKED_AT_ONCE === 0) await othersFirst();
  }
}

function parseEntry(line: string): TreeEntry {
  const match = /^(\d{6}) (\w+) [0-9a-f]+ +(\d+|-)\t/.exec(line);
  if (match === null) throw new UnsafeTreeError(line, 'is a line that git should not print');
  return {
    mode: match[1]!,
    kind: match[2]!,
    size: Number(match[3]!.replace('-', '0')),
    path: line.slice(match[0].length),
  };
}
