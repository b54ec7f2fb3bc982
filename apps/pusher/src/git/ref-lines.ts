/** A line to be put in place of what stands for the name; null: none. */
export interface LineChange {
  name: Buffer;
  line: Buffer | null;
}

const NEWLINE = 0x0a;

/**
 * Refs as lines in byte order of their names, with changes applied. Each line is some text of `nameAt` bytes, the name
 * and a line feed, as in `packed-refs` and in an advertisement. The lines that stay are copied as they are: a change
 * among ten thousand refs costs one copy of them and no look at each.
 */
export function changeLines(lines: Buffer, nameAt: number, changes: readonly LineChange[]): Buffer {
  const sorted = changes.toSorted((a, b) => Buffer.compare(a.name, b.name));
  const parts: Buffer[] = [];
  let copied = 0;
  for (const { name, line } of sorted) {
    const at = findLine(lines, nameAt, name, copied);
    parts.push(lines.subarray(copied, at));
    if (line !== null) parts.push(line);
    const end = lines.indexOf(NEWLINE, at) + 1;
    copied = end > 0 && nameOf(lines, nameAt, at, end).equals(name) ? end : at;
  }
  parts.push(lines.subarray(copied));
  return Buffer.concat(parts);
}

/** Where the first line begins whose name is not before `name`; looks from the line at `from` on. */
function findLine(lines: Buffer, nameAt: number, name: Buffer, from: number): number {
  let low = from;
  let high = lines.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const start = middle === low ? low : Math.max(low, lines.lastIndexOf(NEWLINE, middle - 1) + 1);
    const end = lines.indexOf(NEWLINE, start) + 1;
    if (Buffer.compare(nameOf(lines, nameAt, start, end), name) < 0) low = end;
    else high = start;
  }
  return low;
}

function nameOf(lines: Buffer, nameAt: number, start: number, end: number): Buffer {
  return lines.subarray(start + nameAt, end - 1);
}
