import { describe, expect, it } from 'vitest';
import { untilAnswered } from './until-answered.ts';

const always = (): boolean => true;

describe('untilAnswered', () => {
  it('repeats until there is an answer', async () => {
    const waits: number[] = [];
    const answer = await untilAnswered(
      (attempt) => (attempt < 4 ? Promise.reject(new Error('busy')) : Promise.resolve(attempt)),
      {
        boundMs: 60_000,
        isRetryable: always,
        firstWaitMs: 2,
        lastWaitMs: 4,
        random: () => 1,
        onRetry: ({ waitMs }) => waits.push(waitMs),
      },
    );
    expect(answer).toBe(4);
    expect(waits).toEqual([2, 4, 4]);
  });

  it('throws at once what cannot pass', async () => {
    let attempts = 0;
    const run = (): Promise<never> => {
      attempts += 1;
      return Promise.reject(new Error('no such repository'));
    };
    await expect(untilAnswered(run, { boundMs: 60_000, isRetryable: () => false })).rejects.toThrow(
      'no such repository',
    );
    expect(attempts).toBe(1);
  });

  it('gives up at its bound with the last error', async () => {
    await expect(
      untilAnswered((attempt) => Promise.reject(new Error(`busy ${attempt}`)), {
        boundMs: 10,
        isRetryable: always,
        firstWaitMs: 1000,
        random: () => 1,
      }),
    ).rejects.toThrow('busy 1');
  });

  it('stops waiting when told', async () => {
    const stop = new AbortController();
    const run = untilAnswered(() => Promise.reject(new Error('busy')), {
      boundMs: 60_000,
      isRetryable: always,
      firstWaitMs: 30_000,
      random: () => 1,
      signal: stop.signal,
      onRetry: () => setImmediate(() => stop.abort()),
    });
    await expect(run).rejects.toMatchObject({ name: 'AbortError' });
  });
});
