/** A string of the SSH wire format: its length as four bytes, then the bytes (RFC 4251, section 5). */
export function sshString(value: string | Uint8Array): Buffer {
  const bytes = Buffer.from(value as Uint8Array);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
}

/** Reads SSH wire values one after another; every method throws if the bytes end too early. */
export class SshReader {
  readonly #bytes: Buffer;
  #offset = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = Buffer.from(bytes);
  }

  take(length: number): Buffer {
    const end = this.#offset + length;
    if (end > this.#bytes.length) throw new Error('SSH data ends too early');
    const taken = this.#bytes.subarray(this.#offset, end);
    this.#offset = end;
    return taken;
  }

  uint32(): number {
    return this.take(4).readUInt32BE();
  }

  string(): Buffer {
    return this.take(this.uint32());
  }

  get isAtEnd(): boolean {
    return this.#offset === this.#bytes.length;
  }
}
