import { setTimeout as delay } from 'node:timers/promises';

export interface OutputRelayOptions {
  onOutput: (bytes: Uint8Array) => Promise<void>;
  bytesMax: number;
  /** How long one `onOutput` may take before output goes on without it. */
  stallMs: number;
}

export interface OutputRelay {
  /** Hands bytes on; resolves when more may come. Never rejects. */
  write(bytes: Uint8Array): Promise<void>;
  /** Says how much was lost, in the output itself; resolves when that was taken or has stalled. */
  end(): Promise<void>;
  readonly bytesLost: number;
}

/**
 * Passes output on with back-pressure, up to a cap, and never waits without a bound: a sink that fails or stalls loses
 * output, and a line in the output tells how much, but the command ends and its outcome counts.
 */
export function createOutputRelay({ onOutput, bytesMax, stallMs }: OutputRelayOptions): OutputRelay {
  let bytesTaken = 0;
  let bytesLost = 0;
  let bytesStalled = 0;
  let pending: Promise<void> | undefined;

  const hand = async (bytes: Uint8Array): Promise<void> => {
    const taken = onOutput(bytes)
      .catch(() => {
        bytesLost += bytes.length;
        bytesStalled += bytes.length;
      })
      .finally(() => (pending = undefined));
    pending = taken;
    const timer = new AbortController();
    await Promise.race([taken, delay(stallMs, undefined, { signal: timer.signal }).catch(() => {})]);
    timer.abort();
  };
  const mark = (text: string): Promise<void> => hand(new TextEncoder().encode(`\n[sluice: ${text}]\n`));

  return {
    get bytesLost() {
      return bytesLost;
    },
    async write(bytes) {
      const kept = bytes.subarray(0, Math.max(0, bytesMax - bytesTaken));
      bytesLost += bytes.length - kept.length;
      bytesTaken += kept.length;
      if (kept.length === 0) return;
      if (pending !== undefined) {
        bytesLost += kept.length;
        bytesStalled += kept.length;
        return;
      }
      if (bytesStalled > 0) {
        const text = `${bytesStalled} bytes of output were lost here: the log did not take them`;
        bytesStalled = 0;
        await mark(text);
      }
      if (pending === undefined) return hand(kept);
      bytesLost += kept.length;
      bytesStalled += kept.length;
    },
    async end() {
      if (bytesLost > 0 && pending === undefined)
        await mark(`${bytesLost} bytes of output were not kept; the limit is ${bytesMax}`);
    },
  };
}
