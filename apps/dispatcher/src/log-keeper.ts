/** Collects output for the result: its beginning and its end, since a failure is explained at the end. */
export interface LogKeeper {
  add(bytes: Uint8Array): void;
  /** What was kept; a line between the two parts says how much is missing there. */
  read(): Buffer;
  /** All that was added, kept or not. */
  readonly bytesSeen: number;
}

/** Keeps at most `bytesMax` bytes, half of them from each end. */
export function createLogKeeper(bytesMax: number): LogKeeper {
  const half = Math.floor(bytesMax / 2);
  const head: Buffer[] = [];
  const tail: Buffer[] = [];
  let [bytesSeen, headBytes, tailBytes] = [0, 0, 0];
  return {
    get bytesSeen() {
      return bytesSeen;
    },
    add(bytes) {
      bytesSeen += bytes.length;
      const forHead = Buffer.from(bytes.subarray(0, half - headBytes));
      const forTail = Buffer.from(bytes.subarray(forHead.length).subarray(-half));
      headBytes += forHead.length;
      tailBytes += forTail.length;
      if (forHead.length > 0) head.push(forHead);
      if (forTail.length > 0) tail.push(forTail);
      while (tailBytes - (tail[0]?.length ?? 0) >= half) tailBytes -= tail.shift()!.length;
    },
    read() {
      const end = Buffer.concat(tail).subarray(-half);
      const missing = bytesSeen - headBytes - end.length;
      const gap = missing > 0 ? `\n[sluice: ${missing} bytes are left out here]\n` : '';
      return Buffer.concat([...head, Buffer.from(gap), end]);
    },
  };
}
