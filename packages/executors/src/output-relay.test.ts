import { describe, expect, it } from 'vitest';
import { createOutputRelay } from './output-relay.ts';

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

function collector() {
  const parts: string[] = [];
  const onOutput = (chunk: Uint8Array): Promise<void> => {
    parts.push(Buffer.from(chunk).toString());
    return Promise.resolve();
  };
  return { onOutput, text: () => parts.join('') };
}

describe('createOutputRelay', () => {
  it('passes output on in order', async () => {
    const { onOutput, text } = collector();
    const relay = createOutputRelay({ onOutput, bytesMax: 100, stallMs: 60_000 });
    await relay.write(bytes('a'));
    await relay.write(bytes('b'));
    await relay.end();
    expect([text(), relay.bytesLost]).toEqual(['ab', 0]);
  });

  it('cuts at the limit and says so at the end', async () => {
    const { onOutput, text } = collector();
    const relay = createOutputRelay({ onOutput, bytesMax: 4, stallMs: 60_000 });
    await relay.write(bytes('abc'));
    await relay.write(bytes('defg'));
    await relay.write(bytes('h'));
    await relay.end();
    expect(text()).toBe('abcd\n[sluice: 4 bytes of output were not kept; the limit is 4]\n');
    expect(relay.bytesLost).toBe(4);
  });

  it('goes on without a sink that stalls, and marks the gap when it comes back', async () => {
    const { onOutput, text } = collector();
    const stalled = Promise.withResolvers<void>();
    let isFirst = true;
    const relay = createOutputRelay({
      bytesMax: 1000,
      stallMs: 1,
      onOutput: async (chunk) => {
        const wasFirst = isFirst;
        isFirst = false;
        await onOutput(chunk);
        if (wasFirst) await stalled.promise;
      },
    });
    await relay.write(bytes('one '));
    await relay.write(bytes('two '));
    stalled.resolve();
    await new Promise(setImmediate);
    await relay.write(bytes('three'));
    expect(text()).toBe('one \n[sluice: 4 bytes of output were lost here: the log did not take them]\nthree');
    expect(relay.bytesLost).toBe(4);
  });

  it('survives a sink that fails', async () => {
    const relay = createOutputRelay({
      onOutput: () => Promise.reject(new Error('disk full')),
      bytesMax: 100,
      stallMs: 60_000,
    });
    await relay.write(bytes('abc'));
    await relay.end();
    expect(relay.bytesLost).toBeGreaterThanOrEqual(3);
  });
});
