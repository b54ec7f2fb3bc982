import { EventEmitter } from 'node:events';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createLogger } from './create-logger.ts';
import { onShutdown } from './on-shutdown.ts';

function start(
  stop: (how: { hurry: boolean }) => Promise<void>,
  limits: { graceMs?: number; hurryMs?: number } = {},
) {
  const emitter = new EventEmitter();
  const exited = Promise.withResolvers<number>();
  let time = 0;
  const host = Object.assign(emitter, {
    exit: (code: number): never => {
      exited.resolve(code);
      return undefined as never;
    },
  });
  const off = onShutdown({
    log: createLogger({ service: 'test', level: 'silent' }),
    stop,
    graceMs: limits.graceMs ?? 60_000,
    hurryMs: limits.hurryMs ?? 60_000,
    process: host as unknown as Pick<NodeJS.Process, 'on' | 'off' | 'exit'>,
    now: () => time,
  });
  onTestFinished(off);
  const signal = (name: string, afterMs = 1_000): void => {
    time += afterMs;
    emitter.emit(name, name);
  };
  return { exited: exited.promise, signal, emitter, off };
}

const never = (): Promise<void> => new Promise(() => {});

describe('onShutdown', () => {
  it('drains at the first signal and exits with 0', async () => {
    const calls: boolean[] = [];
    const { signal, exited } = start(async ({ hurry }) => void calls.push(hurry));
    signal('SIGTERM');
    expect(await exited).toBe(0);
    expect(calls).toEqual([false]);
  });

  it('hurries at the second signal and exits with its code', async () => {
    const calls: boolean[] = [];
    const { signal, exited } = start(({ hurry }) => {
      calls.push(hurry);
      return hurry ? Promise.resolve() : never();
    });
    signal('SIGTERM');
    signal('SIGINT');
    expect(await exited).toBe(130);
    expect(calls).toEqual([false, true]);
  });

  it('takes two signals of one key press as one', async () => {
    const calls: boolean[] = [];
    const { signal, exited } = start(({ hurry }) => {
      calls.push(hurry);
      return hurry ? Promise.resolve() : never();
    });
    signal('SIGINT');
    signal('SIGINT', 1);
    expect(calls).toEqual([false]);
    signal('SIGINT', 300);
    expect(await exited).toBe(130);
  });

  it('ends at once at the third signal', async () => {
    const { signal, exited } = start(never);
    signal('SIGINT');
    signal('SIGINT');
    signal('SIGINT');
    expect(await exited).toBe(130);
  });

  it('hurries by itself when the grace is over, and ends when even that takes too long', async () => {
    const calls: boolean[] = [];
    const { signal, exited } = start(
      ({ hurry }) => {
        calls.push(hurry);
        return never();
      },
      { graceMs: 1, hurryMs: 1 },
    );
    signal('SIGTERM');
    expect(await exited).toBe(1);
    expect(calls).toEqual([false, true]);
  });

  it('exits with 1 when stopping fails', async () => {
    const { signal, exited } = start(() => Promise.reject(new Error('no')));
    signal('SIGTERM');
    expect(await exited).toBe(1);
  });

  it('can be taken off', () => {
    const { off, emitter } = start(never);
    off();
    expect(emitter.listenerCount('SIGTERM')).toBe(0);
  });
});
