import {
  appendLog,
  dispatcherComplete,
  dispatcherFail,
  promoteDue,
  registerDispatcher,
  unregisterDispatcher,
} from '@sluice/queue-core/dispatcher';
import {
  claimEffects,
  enqueueEffect,
  enqueueEffects,
  skipEffects,
  type ClaimedEffect,
} from '@sluice/queue-core/repo';
import { useTestDatabase } from '@sluice/testkit';
import { describe, expect, it } from 'vitest';
import { runCli } from './run-cli.ts';

const database = useTestDatabase();
const env = (): Record<string, string> => ({ DATABASE_URL: database.url, SLUICE_REPO_CAP: '2' });
const cli = (...args: string[]) => runCli(args, { env: env() });
const enqueue = (repoId: string, name: string, more = {}) =>
  enqueueEffect(database.db, { repoId, name, payload: 'x', ...more });

async function claim(repoId: string): Promise<ClaimedEffect> {
  const [claimed] = await claimEffects(database.db, { repoId, claimedBy: 'me', limit: 1 });
  if (claimed === undefined) throw new Error(`nothing to claim in ${repoId}`);
  return claimed;
}

const withoutInstants = (text: string): string =>
  text.replaceAll(/\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ/g, 'NOW').replaceAll(/ {2,}/g, '  ');

/** Said of a name that may be misspelled. */
const NOTHING =
  'nothing of acme/nothing is queued or has finished; without --repo, sluice queue shows every repository with work\n';

describe('sluice queue', () => {
  it('says so when there is nothing', async () => {
    expect(await cli('queue')).toEqual({
      code: 0,
      stdout: 'nothing is queued and nothing has finished\n',
      stderr: '',
    });
    expect(await cli('queue', '--repo', 'acme/nothing')).toEqual({ code: 0, stdout: NOTHING, stderr: '' });
  });

  it('shows what runs, what waits and for what, and what finished', async () => {
    const { db } = database;
    const done = await enqueue('q/api', 'lint');
    await dispatcherComplete(db, await claim('q/api'), { outcome: 'fail', reason: 'exit 2' });
    const [skipped] = await skipEffects(db, [
      { repoId: 'q/api', name: 'docs', payload: 'x', reason: 'the push asked for it' },
    ]);
    const ids = [
      await enqueue('q/api', 'one'),
      await enqueue('q/api', 'two'),
      await enqueue('q/api', 'three'),
      await enqueue('q/api', 'four'),
    ];
    const later = await enqueue('q/api', 'nightly', { runAt: new Date('2999-01-01T00:00:00Z') });
    await claim('q/api');

    const lonely = withoutInstants((await cli('queue', '--repo', 'q/api')).stdout);
    expect(lonely.split('\n')).toEqual([
      'REPOSITORY  RUN  WAIT  LATER  CAP  WEIGHT  SHARE  ENTITLED  OLDEST',
      expect.stringMatching(/^q\/api {2}1 {2}3 {2}1 {2}default {2}1 {2}100% {2}100% {2}\d+s$/),
      '',
      'RUNS  REPOSITORY  NAME  ATTEMPT  SINCE  BY',
      `${ids[0]}  q/api  one  1  NOW  me`,
      '',
      'WAITS  REPOSITORY  NAME  FOR',
      `${ids[1]}  q/api  two  a dispatcher; none is running`,
      `${ids[2]}  q/api  three  a dispatcher; none is running`,
      `${ids[3]}  q/api  four  a dispatcher; none is running`,
      `${later}  q/api  nightly  its time, NOW`,
      '',
      'FINISHED  REPOSITORY  NAME  HOW  AT  REASON',
      `${skipped}  q/api  docs  skipped  NOW  the push asked for it`,
      `${done}  q/api  lint  fail  NOW  exit 2`,
      '',
    ]);

    const dispatcher = await registerDispatcher(db, { host: 'h', pid: 1, slots: 1, leaseMs: 600_000 });
    const waits = async () =>
      withoutInstants((await cli('queue', '--repo', 'q/api')).stdout)
        .split('\n')
        .filter((line) => / q\/api {2}(?:two|three) {2}[a-z]/.test(line));
    expect(await waits()).toEqual([
      `${ids[1]}  q/api  two  its repository's turn`,
      `${ids[2]}  q/api  three  one effect before it`,
    ]);
    await cli('repo', 'set', 'q/api', '--pause');
    expect((await waits())[0]).toBe(
      `${ids[1]}  q/api  two  its repository, paused since NOW (sluice repo set q/api --resume)`,
    );
    await cli('repo', 'set', 'q/api', '--resume', '--cap', '1');
    expect((await waits())[0]).toBe(`${ids[1]}  q/api  two  room in its repository: 1 run, the cap is 1`);
    await unregisterDispatcher(db, dispatcher);
  });

  it('says what to do about an effect that found the queue full', async () => {
    await cli('repo', 'set', 'q/full', '--max-queued', '1');
    const first = await enqueue('q/full', 'first');
    const [second] = await enqueueEffects(database.db, [{ repoId: 'q/full', name: 'second', payload: 'x' }]);
    const id = second!.effectId;
    const reason = `queue full (when there is room: sluice rerun ${id})`;
    const shown = withoutInstants((await cli('queue', '--repo', 'q/full')).stdout);
    expect(shown).toContain(`\n${id}  q/full  second  skipped  NOW  ${reason}\n`);
    expect((await cli('log', String(id))).stderr).toBe(
      `effect ${id}, second of q/full: skipped (${reason})\n`,
    );
    expect((await cli('rerun', String(id))).stderr).toMatch(
      /\n {2}next: .*sluice repo set <repo> --max-queued <n>/,
    );
    await cli('cancel', String(first));
    expect(await cli('rerun', String(id))).toMatchObject({ code: 0 });
  });

  it('says on which machine something runs, and in which process', async () => {
    const claimedBy = await registerDispatcher(database.db, {
      host: 'build-7',
      pid: 4711,
      slots: 1,
      leaseMs: 600_000,
    });
    const id = await enqueue('q/where', 'one');
    await claimEffects(database.db, { repoId: 'q/where', claimedBy, limit: 1 });
    expect(withoutInstants((await cli('queue', '--repo', 'q/where')).stdout)).toContain(
      `\n${id}  q/where  one  1  NOW  process 4711 on build-7\n`,
    );
    await unregisterDispatcher(database.db, claimedBy);
  });

  it('shows the share of what runs beside the one that the weight stands for', async () => {
    const { db } = database;
    await db.deleteFrom('effect_claim').execute();
    await db.deleteFrom('effect_queue').execute();
    await cli('repo', 'set', 's/heavy', '--weight', '300');
    for (const repoId of ['s/heavy', 's/light', 's/paused', 's/paused']) await enqueue(repoId, 'x');
    await enqueue('s/light', 'y');
    await enqueue('s/later', 'x', { delayMs: 3_600_000 });
    await claim('s/heavy');
    for (let n = 0; n < 2; n += 1) await claim('s/light');
    await claim('s/paused');
    await cli('repo', 'set', 's/paused', '--pause');
    await cli('limit', 'set', '--global-cap', '4');
    const shown = withoutInstants((await cli('queue')).stdout).split('\n');
    expect((await cli('queue', '--repo', 'acme/nothing')).stdout).toBe(
      `4 run in all, the global cap is 4\n\n${NOTHING}`,
    );
    await cli('limit', 'set', '--global-cap', 'none');
    expect(shown[0]).toBe('4 run in all, the global cap is 4');
    expect(shown.filter((line) => /^s\/\w+ {2}\d {2}\d {2}/.test(line))).toEqual([
      's/heavy  1  0  0  default  300  25%  100%',
      's/later  0  0  1  default  1  0%',
      's/light  2  0  0  default  1  50%  <1%',
      expect.stringMatching(/^s\/paused {2}1 {2}1 {2}0 {2}default {2}1 {2}25% {2}\d+s {2}paused$/),
    ]);
  });

  it('does not let a name touch the terminal', async () => {
    await enqueue('q/evil', 'a\u001b[31mb\u202e');
    const { stdout } = await runCli(['queue', '--repo', 'q/evil'], { env: env(), isTTY: true });
    expect(stdout).not.toMatch(/[\u001b\u202e]/);
    expect(stdout).toContain('  ab  ');
  });

  it('watches until it is interrupted, and writes what changed', async () => {
    const stop = new AbortController();
    await enqueue('q/watch', 'first');
    let hasEnqueued = false;
    const result = await runCli(['queue', '--watch', '--repo', 'q/watch'], {
      env: env(),
      signal: stop.signal,
      onOutput: (all) => {
        if (all.includes('second')) stop.abort();
        if (hasEnqueued) return;
        hasEnqueued = true;
        void enqueue('q/watch', 'second');
      },
    });
    expect(result).toMatchObject({ code: 0, stderr: '' });
    expect(result.stdout.match(/REPOSITORY  RUN/g)?.length).toBeGreaterThanOrEqual(2);
  });

  it.each([
    [['queue', '--limit', '0'], 2],
    [['queue', '--repo', ''], 1],
    [['log', 'seven'], 1],
    [['log', '999999999'], 1],
    [['log'], 2],
  ])('refuses %j', async (args, code) => {
    const result = await cli(...args);
    expect(result.code).toBe(code);
    expect(result.stderr).toMatch(/^sluice: [^\n]+\n {2}next: [^\n]+\n$/);
  });

  it('refuses a default cap that is none', async () => {
    const result = await runCli(['queue'], { env: { ...env(), SLUICE_REPO_CAP: 'many' } });
    expect(result.stderr).toMatch(/^sluice: SLUICE_REPO_CAP: expected a whole number, got "many"\n/);
  });
});

describe('sluice log', () => {
  it('shows all attempts with a line before each, and how the effect stands', async () => {
    const { db } = database;
    const id = await enqueue('l/api', 'build');
    const waiting = await cli('log', String(id));
    expect(waiting).toEqual({
      code: 0,
      stdout: '',
      stderr: `effect ${id}, build of l/api: waits for a dispatcher; none is running\n`,
    });

    const first = await claim('l/api');
    await appendLog(db, first, [
      { seq: 1, bytes: Buffer.from('\u001b[31mone\u001b[0m\n') },
      { seq: 2, bytes: Buffer.from('cut') },
    ]);
    await dispatcherFail(db, {
      claim: first,
      error: 'the sandbox would not start',
      retryInMs: 0,
    });
    expect((await cli('log', String(id))).stderr).toMatch(
      /waits for attempt 2 at .*; the last one failed: the sandbox would not start\n$/,
    );
    await promoteDue(db, { limit: 10 });
    const second = await claim('l/api');
    await appendLog(db, second, [{ seq: 1, bytes: Buffer.from('two\n') }]);
    const expected = `--- attempt 1 (claim ${first.claimNumber}) ---\none\ncut\n--- attempt 2 (claim ${second.claimNumber}) ---\ntwo\n`;
    const running = await runCli(['log', String(id)], { env: env(), isTTY: true });
    expect(running).toEqual({
      code: 0,
      stdout: expected,
      stderr: `effect ${id}, build of l/api: runs, attempt 2 of 3\n`,
    });

    await dispatcherComplete(db, second, { outcome: 'pass' });
    const finished = await cli('log', String(id));
    expect(finished.stdout).toContain('\u001b[31mone');
    expect(finished.stderr).toBe(`effect ${id}, build of l/api: pass\n`);
  });

  it('follows an effect to its end', async () => {
    const { db } = database;
    const id = await enqueue('l/web', 'build');
    const claimed = await claim('l/web');
    await appendLog(db, claimed, [{ seq: 1, bytes: Buffer.from('first\n') }]);
    let isLast = false;
    const result = await runCli(['log', String(id), '--follow'], {
      env: env(),
      onOutput: (all) => {
        if (isLast || !all.includes('first')) return;
        isLast = true;
        void appendLog(db, claimed, [{ seq: 2, bytes: Buffer.from('last\n') }]).then(() =>
          dispatcherComplete(db, claimed),
        );
      },
    });
    expect(result).toEqual({
      code: 0,
      stdout: `--- attempt 1 (claim ${claimed.claimNumber}) ---\nfirst\nlast\n`,
      stderr: `effect ${id}, build of l/web: pass\n`,
    });
  });

  it('stops following when interrupted', async () => {
    const id = await enqueue('l/stop', 'build');
    const stop = new AbortController();
    stop.abort();
    expect(await runCli(['log', String(id), '--follow'], { env: env(), signal: stop.signal })).toMatchObject({
      code: 0,
      stdout: '',
    });
  });
});
