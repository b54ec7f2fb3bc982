import { dispatcherComplete } from '@sluice/queue-core/dispatcher';
import { claimEffects, enqueueEffect } from '@sluice/queue-core/repo';
import { useTestDatabase } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { runCli } from './run-cli.ts';

const database = useTestDatabase();
const cli = (...args: string[]) => runCli(args, { env: { DATABASE_URL: database.url } });

test('cancel takes back what waits; rerun runs again what has finished; each says no to the other', async () => {
  const { db } = database;
  const id = await enqueueEffect(db, { repoId: 'acme/api', name: 'test', payload: 'x' });
  const early = await cli('rerun', String(id));
  expect(early).toMatchObject({ code: 1, stdout: '' });
  expect(early.stderr).toContain(`effect ${id} has not finished`);

  expect(await cli('cancel', String(id), '--reason', 'wrong branch')).toEqual({
    code: 0,
    stdout: `cancelled effect ${id}, test of acme/api\n`,
    stderr: '',
  });
  const late = await cli('cancel', String(id));
  expect(late).toMatchObject({ code: 1, stdout: '' });
  expect(late.stderr).toBe(
    `sluice: effect ${id} does not wait any more: cancelled (wrong branch)\n  next: sluice rerun ${id} runs it once more.\n`,
  );

  const again = await cli('rerun', String(id));
  const next = /runs again as effect (\d+), test of acme\/api\n$/.exec(again.stdout)?.[1];
  expect(again).toMatchObject({ code: 0, stderr: '' });
  const [claim] = await claimEffects(db, { repoId: 'acme/api', claimedBy: 'w', limit: 1 });
  expect(String(claim?.effectId)).toBe(next);
  expect((await cli('cancel', next!)).stderr).toBe(
    `sluice: effect ${next} does not wait any more: runs, attempt 1 of 3\n  next: It ends by itself or at its time limit; sluice log ${next} --follow shows when.\n`,
  );
  expect(await dispatcherComplete(db, claim!)).toBe('completed');
});

test('an unknown effect and a malformed id are named', async () => {
  for (const command of ['cancel', 'rerun']) {
    expect((await cli(command, '123456789')).stderr).toContain('there is no effect 123456789');
    expect(await cli(command, 'abc')).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining(
        'expected the number of an effect, got "abc"\n  next: The output of git push',
      ),
    });
  }
});
