/** Collects output for the result: its beginning and its end, since a failure is explained at the end. */
export interface LogKeeper {
  add(bytes: Uint8Array): void;
  /** What was kept; a line between the two parts says how much is missing there. */
  read(): Buffer;
  /** All that was added, kept or not. */
  readonly bytesSeen: number;
}

/**
 * Output fills blocks, however it comes. Kept as it comes, that of a command which writes byte by byte would be a million
 * pieces, and to move them on would take a millisecond for each further byte.
 */
const BLOCK_BYTES = 16 * 1024;

/** Keeps at most `bytesMax` bytes, half of them from each end. */
export function createLogKeeper(bytesMax: number): LogKeeper {
  const half = Math.floor(bytesMax / 2);
  const [head, tail] = [new Blocks(half), new Blocks(half)];
  let bytesSeen = 0;
  return {
    get bytesSeen() {
      return bytesSeen;
    },
    add(bytes) {
      bytesSeen += bytes.length;
      const forHead = bytes.subarray(0, half - head.bytes);
      head.append(forHead);
      tail.append(bytes.subarray(forHead.length).subarray(-half));
      tail.forgetAllBut(half);
    },
    read() {
      const end = tail.read().subarray(-half);
      const missing = bytesSeen - head.bytes - end.length;
      const gap = missing > 0 ? `\n[sluice: ${missing} bytes are left out here]\n` : '';
      return Buffer.concat([head.read(), Buffer.from(gap), end]);
    },
  };
}

class Blocks {
  readonly #blockBytes: number;
  readonly #blocks: { content: Buffer; length: number }[] = [];
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#blockBytes = Math.max(1, Math.min(BLOCK_BYTES, bytesMax));
  }

  get bytes(): number {
    return this.#bytes;
  }

  append(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length;) {
      let last = this.#blocks.at(-1);
      if (last === undefined || last.length === last.content.length)
        this.#blocks.push((last = { content: Buffer.allocUnsafe(this.#blockBytes), length: 0 }));
      const part = bytes.subarray(at, at + last.content.length - last.length);
      last.content.set(part, last.length);
      last.length += part.length;
      at += part.length;
    }
    this.#bytes += bytes.length;
  }

  /** Lets the first blocks go as long as this many bytes remain. */
  forgetAllBut(bytes: number): void {
    while (this.#bytes - (this.#blocks[0]?.length ?? 0) >= bytes && this.#blocks.length > 0)
      this.#bytes -= this.#blocks.shift()!.length;
  }

  read(): Buffer {
    return Buffer.concat(this.#blocks.map(({ content, length }) => content.subarray(0, length)));
  }
}
