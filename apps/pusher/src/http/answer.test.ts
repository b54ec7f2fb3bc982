import type { IncomingMessage, ServerResponse } from 'node:http';
import { PassThrough } from 'node:stream';
import { expect, onTestFinished, test, vi } from 'vitest';
import { HttpError } from '../http-error.ts';
import { answerError } from './answer.ts';

test('who is refused and goes on sending, a byte now and then, is cut off', () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const request = Object.assign(new PassThrough(), { complete: false });
  const said: unknown[] = [];
  const response = {
    headersSent: false,
    writeHead: (status: number) => said.push(status),
    setTimeout: () => undefined,
    end: (body: string) => said.push(body),
  };
  answerError(
    request as unknown as IncomingMessage,
    response as unknown as ServerResponse,
    new HttpError(401, 'expected credentials'),
  );
  expect(said).toEqual([401, 'expected credentials\n']);
  for (let second = 1; second < 30; second += 1) {
    request.write('x');
    vi.advanceTimersByTime(1000);
  }
  expect(request.destroyed).toBe(false);
  vi.advanceTimersByTime(1000);
  expect(request.destroyed).toBe(true);
});
