import * as v from 'valibot';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { typedPayload } from './typed-payload.ts';

const schemas = {
  zod: typedPayload(z.object({ to: z.string(), at: z.string().transform((text) => new Date(text)) })),
  valibot: typedPayload(
    v.object({
      to: v.string(),
      at: v.pipe(
        v.string(),
        v.transform((text) => new Date(text)),
      ),
    }),
  ),
};

describe.each(Object.entries(schemas))('%s', (_, payload) => {
  test('a value survives; its transforms are applied when it is read', async () => {
    const text = await payload.encode({ to: 'a', at: '2026-01-02T00:00:00Z' });
    expect(JSON.parse(text)).toEqual({ to: 'a', at: '2026-01-02T00:00:00Z' });
    expect(await payload.decode(text)).toEqual({ value: { to: 'a', at: new Date('2026-01-02T00:00:00Z') } });
  });

  test('a wrong value is refused before it is enqueued, naming the field', async () => {
    await expect(payload.encode({ to: 1 as unknown as string, at: '' })).rejects.toThrow(
      /payload\.to: .*string/i,
    );
  });

  test('a wrong payload is a problem, not an exception', async () => {
    expect(await payload.decode('{"to":1,"at":"x"}')).toEqual({
      problem: expect.stringMatching(/payload\.to: .*string/i),
    });
    expect(await payload.decode('not json')).toEqual({
      problem: expect.stringContaining('expected JSON, got "not json"'),
    });
  });
});

test('what JSON cannot hold is refused', async () => {
  const anything = typedPayload(z.any());
  await expect(anything.encode(undefined)).rejects.toThrow(
    'expected a value that JSON can hold, got undefined',
  );
  await expect(anything.encode(1n)).rejects.toMatchObject({ code: 'invalid_argument' });
});
