import { claimEffects, enqueueEffect, enqueueEffects, recordOp } from '@sluice/queue-core/repo';
import { useTestDatabase } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { typedPayload } from '../src/index.ts';

const database = useTestDatabase();
const anything = typedPayload(z.any());

const KINDS = [[1, 2, 3], [], ['a'], 'text', '', 42, -0.5, true, null, [[null]], {}, { a: [{ b: '{1,2}' }] }];

test.each(KINDS.map((value) => [JSON.stringify(value), value]))(
  'a payload of %s is read as it was written',
  async (_, value) => {
    const { db } = database;
    const payload = await anything.encode(value);
    const repoId = `r${KINDS.findIndex((kind) => kind === value)}`;
    await enqueueEffect(db, { repoId, payload });
    await enqueueEffects(db, [{ repoId, payload }]);
    const claimed = await claimEffects(db, { repoId, claimedBy: 'w', limit: 9 });
    expect(claimed).toHaveLength(2);
    for (const effect of claimed) expect(await anything.decode(effect.payload)).toEqual({ value });
  },
);

test.each(KINDS.filter((value) => typeof value !== 'string'))(
  'without a codec a payload is text, and %j is refused by name before it is stored as something else',
  async (value) => {
    const { db } = database;
    const wrong = { repoId: 'a', payload: value as string };
    for (const refused of [enqueueEffect(db, wrong), enqueueEffects(db, [wrong])]) {
      await expect(refused).rejects.toMatchObject({
        code: 'invalid_argument',
        message: expect.stringContaining('payload'),
      });
    }
    await expect(recordOp(db, { repoId: 'a', opOid: value as string })).rejects.toMatchObject({
      code: 'invalid_argument',
      message: expect.stringContaining('opOid'),
    });
  },
);
