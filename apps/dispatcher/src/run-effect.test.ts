import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { encodeWorkOrder, type WorkOrder } from '@sluice/effect-spec';
import { createBubblewrapExecutor, createHostExecutor, type EffectExecutor } from '@sluice/executors';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import {
  orderFor,
  REPO,
  startFakePusher,
  type FakePusher,
  type FakePusherOptions,
} from '../test/fake-pusher.ts';
import { openCommitCache, type CommitCacheOptions } from './commit-cache.ts';
import { createPusherClient } from './pusher-client.ts';
import { runEffect, type EffectRunner, type EffectToRun } from './run-effect.ts';
import { openWorkFolder } from './work-folder.ts';

interface Setup extends FakePusherOptions {
  runner?: Partial<EffectRunner>;
  cache?: Partial<CommitCacheOptions>;
}

async function setUp({ token, objectFormat = 'sha1', runner: over = {}, cache: cacheOver = {} }: Setup = {}) {
  const pusher = await startFakePusher({ objectFormat, ...(token === undefined ? {} : { token }) });
  const workDir = await mkdtemp(join(tmpdir(), 'sluice-work-'));
  const workFolder = await openWorkFolder(workDir);
  onTestFinished(async () => {
    await pusher[Symbol.asyncDispose]();
    await rm(workDir, { recursive: true, force: true });
  });
  const client = createPusherClient(pusher.url, token);
  const cache = await openCommitCache({
    pusher: client,
    folder: workFolder.cacheDir,
    retryMs: 20_000,
    ...cacheOver,
  });
  const runner: EffectRunner = {
    pusher: client,
    cache,
    executor: createHostExecutor(),
    createRunFolder: workFolder.createRunFolder,
    now: () => new Date('2026-01-02T03:04:05Z'),
    pushRetryMs: 20_000,
    ...over,
  };
  const output: Buffer[] = [];
  const run = (
    order: WorkOrder,
    {
      signal = new AbortController().signal,
      flush = () => Promise.resolve(),
      ...effect
    }: Partial<EffectToRun> & { signal?: AbortSignal; flush?: () => Promise<void> } = {},
  ) =>
    runEffect(
      {
        effectId: 7n,
        repoId: REPO,
        claimNumber: 42n,
        attempt: 1,
        payload: encodeWorkOrder(order),
        ...effect,
      },
      { signal, flush, log: (bytes) => Promise.resolve(void output.push(Buffer.from(bytes))) },
      runner,
    );
  const leftovers = async (): Promise<string[]> => readdir(join(workFolder.cacheDir, '..', 'runs'));
  return { pusher, run, workFolder, leftovers, text: () => Buffer.concat(output).toString() };
}

async function readResult(pusher: FakePusher, order: WorkOrder, rev = '') {
  const json = await pusher.git(['cat-file', 'blob', `${order.resultRef}${rev}:result.json`]);
  return {
    ...(JSON.parse(json) as Record<string, unknown>),
    log: await pusher.git(['cat-file', 'blob', `${order.resultRef}${rev}:log`]),
  };
}

const hasResult = async (pusher: FakePusher, order: WorkOrder): Promise<boolean> =>
  (await pusher.git(['for-each-ref', order.resultRef])) !== '';

describe('runEffect', () => {
  it.each([createHostExecutor(), createBubblewrapExecutor()])(
    'runs the pinned commit and pushes its result ($name)',
    async (executor) => {
      vi.stubEnv('SLUICE_TOKEN', 'hunter2');
      onTestFinished(() => void vi.unstubAllEnvs());
      const { pusher, run, text, leftovers } = await setUp({ token: 'hunter2', runner: { executor } });
      const order = await pusher.order(
        { 'hello.txt': 'hello\n' },
        'run: |\n  cat hello.txt; ls -A; env; echo oops >&2; exit 3\nenv:\n  A: b\n',
      );
      expect(await run(order)).toEqual({ status: 'settled' });
      expect(text()).toMatch(/^hello\nhello\.txt\n/);
      expect(text()).toContain(`SLUICE_COMMIT=${order.source.commit}\n`);
      expect(text()).not.toContain('hunter2');
      const result = await readResult(pusher, order);
      expect(result).toMatchObject({
        version: 1,
        effectId: '7',
        name: 'test',
        attempt: 1,
        outcome: 'fail',
        exitCode: 3,
        reason: 'exit code 3',
        startedAt: '2026-01-02T03:04:05.000Z',
        executor: executor.name,
        repo: REPO,
        ref: 'refs/heads/main',
        commit: order.source.commit,
        definition: order.effect.definition,
        pushId: order.push.id,
        log: text().trim(),
      });
      expect(
        pusher.requests
          .filter((path) => path.includes('receive-pack'))
          .every((path) => path.startsWith('/_claim/42/acme/api.git/')),
      ).toBe(true);
      expect(await leftovers()).toEqual([]);
    },
  );

  it('works in a SHA-256 repository', async () => {
    const { pusher, run } = await setUp({ objectFormat: 'sha256' });
    const order = await pusher.order({ a: 'a' }, 'run: cat a\n');
    expect(await run(order)).toEqual({ status: 'settled' });
    expect(await readResult(pusher, order)).toMatchObject({
      outcome: 'pass',
      commit: expect.stringMatching(/^.{64}$/),
      log: 'a',
    });
  });

  it('chains the results of the same effect and commit, also when two are pushed at once', async () => {
    const { pusher, run } = await setUp();
    const order = await pusher.order({ a: '' }, 'run: echo done\n');
    const runs = [1, 2, 3].map((attempt) => run(order, { attempt, claimNumber: BigInt(attempt) }));
    expect(await Promise.all(runs)).toEqual(runs.map(() => ({ status: 'settled' })));
    expect(await pusher.git(['rev-list', '--count', order.resultRef])).toBe('3');
    const results = await Promise.all(['', '~1', '~2'].map((rev) => readResult(pusher, order, rev)));
    expect(new Set(results.map((result) => ('attempt' in result ? result.attempt : null)))).toEqual(
      new Set([1, 2, 3]),
    );
  });

  it('stores the beginning and the end of a long log', async () => {
    const { pusher, run } = await setUp({ runner: { logBytesMax: 1_000 } });
    const order = await pusher.order(
      { a: '' },
      'run: echo begin; head -c 5000 /dev/zero | tr "\\0" x; echo end\n',
    );
    await run(order);
    const { log } = await readResult(pusher, order);
    expect(log).toMatch(/^begin\nx+\n\[sluice: 4\d\d\d bytes are left out here\]\nx+end$/);
  });

  it('has all output stored before its result closes the claim', async () => {
    const { pusher, run, text } = await setUp();
    const order = await pusher.order({ a: '' }, 'run: echo all of it\n');
    const seen: [string, boolean][] = [];
    await run(order, { flush: async () => void seen.push([text(), await hasResult(pusher, order)]) });
    expect(seen).toEqual([['all of it\n', false]]);
    expect(await hasResult(pusher, order)).toBe(true);
  });

  it('stores a time-out', async () => {
    const { pusher, run } = await setUp();
    const order = await pusher.order({ a: '' }, 'run: exec sleep 300\ntimeout: 1s\n');
    expect(await run(order)).toEqual({ status: 'settled' });
    const reason = 'stopped after 1000 ms, its time limit';
    expect(await readResult(pusher, order)).toMatchObject({
      outcome: 'timeout',
      exitCode: null,
      reason,
      log: `[sluice: ${reason}]`,
    });
  });

  it('calls a work order that cannot be done poison', async () => {
    const { pusher, run } = await setUp();
    const order = await pusher.order({ a: '' }, 'run: "true"\n');
    expect(await run(order, { payload: 'x' })).toMatchObject({
      status: 'poison',
      message: expect.stringContaining('expected JSON'),
    });
    expect(await run(order, { repoId: 'other/repo' })).toMatchObject({
      status: 'poison',
      message: expect.stringContaining('expected other/repo'),
    });
    for (const repoId of ['a/../b', '_claim/7/acme/api', '_sha256/x', 'a.git/b', '-a//b']) {
      expect(await run({ ...order, repo: repoId }, { repoId })).toMatchObject({
        status: 'poison',
        message: expect.stringContaining('is no name the pusher serves'),
      });
    }
    expect(pusher.requests).toEqual([]);
  });

  it('fails an effect whose tree is hostile or whose definition asks for an image, and says why in its log', async () => {
    const { pusher, run } = await setUp();
    const blob = await pusher.git(['hash-object', '-w', '--stdin'], 'x');
    const entry = Buffer.concat([Buffer.from('100644 ../../escaped\0'), Buffer.from(blob, 'hex')]);
    const tree = await pusher.git(['hash-object', '-w', '--stdin', '--literally', '-t', 'tree'], entry);
    const hostile = await orderFor(pusher.git, tree, 'run: "true"\n');
    expect(await run(hostile)).toEqual({ status: 'settled' });
    expect(await readResult(pusher, hostile)).toMatchObject({
      outcome: 'fail',
      log: expect.stringContaining('cannot be checked out'),
    });
    const image = await pusher.order({ a: '' }, 'run: "true"\nimage: alpine:3\n');
    await run(image);
    expect(await readResult(pusher, image)).toMatchObject({
      outcome: 'fail',
      reason: expect.stringContaining('the host executor has no images'),
    });
  });

  it('waits out a pusher that is away, in the fetch and in the push', async () => {
    const host = createHostExecutor();
    const executor: EffectExecutor = {
      name: 'host',
      run: async (spec, context) => {
        const status = await host.run(spec, context);
        pusher.faults.push('drop', 503);
        return status;
      },
    };
    const { pusher, run } = await setUp({ runner: { executor } });
    const order = await pusher.order({ a: '' }, 'run: "true"\n');
    pusher.faults.push(503, 'drop', 502);
    expect(await run(order)).toEqual({ status: 'settled' });
    expect(await hasResult(pusher, order)).toBe(true);
    expect(pusher.faults).toEqual([]);
  });

  it('stops without a word when the claim is gone', async () => {
    const { pusher, run } = await setUp();
    const order = await pusher.order({ a: '' }, 'run: "true"\n');
    await pusher.refuse(order.resultRef, 'claim 42 is gone: it was completed, requeued or never made');
    expect(await run(order)).toEqual({ status: 'settled' });
    expect(await hasResult(pusher, order)).toBe(false);
  });

  it('completes the effect without a result when the pusher refuses it for good', async () => {
    const { pusher, run } = await setUp();
    const order = await pusher.order({ a: '' }, 'run: exit 1\n');
    await pusher.refuse(order.resultRef, 'quota exceeded');
    expect(await run(order)).toEqual({
      status: 'done',
      outcome: 'fail',
      reason: 'exit code 1; its result could not be stored: [remote rejected] (quota exceeded)',
    });
  });

  it('gives the effect back when the pusher stays away or has no such commit', async () => {
    const { pusher, run, leftovers } = await setUp({ runner: { pushRetryMs: 1 }, cache: { retryMs: 1 } });
    const order = await pusher.order({ a: '' }, 'run: "true"\n');
    const missing = {
      ...order,
      source: { ...order.source, commit: '1'.repeat(40) },
      resultRef: `refs/meta/results/test/${'1'.repeat(40)}`,
    };
    await expect(run(missing)).rejects.toThrow('git fetch');
    await pusher.refuse(
      order.resultRef,
      'the database is not available; nothing was changed, try again in a moment',
    );
    await expect(run(order)).rejects.toThrow('git push');
    pusher.faults.push(...Array.from({ length: 50 }, () => 503));
    await expect(run(await pusher.order({ b: '' }, 'run: "true"\n'))).rejects.toThrow('503');
    expect(await leftovers()).toEqual([]);
  });

  it('refuses a wrong token at once', async () => {
    const { pusher } = await setUp({ token: 'right' });
    const order = await pusher.order({ a: '' }, 'run: "true"\n');
    const folder = await mkdtemp(join(tmpdir(), 'sluice-cache-'));
    onTestFinished(() => rm(folder, { recursive: true }));
    const cache = await openCommitCache({ pusher: createPusherClient(pusher.url, 'wrong'), folder });
    const wanted = { repoId: REPO, objectFormat: 'sha1', commit: order.source.commit } as const;
    await expect(cache.borrow(wanted, new AbortController().signal)).rejects.toThrow(
      /Authentication failed|could not read Username/,
    );
  });

  it('stops when told, and pushes nothing', async () => {
    const { pusher, run, leftovers } = await setUp();
    const order = await pusher.order({ a: '' }, 'run: sleep 300\n');
    const stop = new AbortController();
    const running = run(order, { signal: stop.signal });
    await vi.waitFor(async () => expect(await leftovers()).toHaveLength(1), { timeout: 20_000 });
    stop.abort(new Error('stopping'));
    await running.then(
      (result) => expect(result.status).toBe('error'),
      (error: unknown) => expect(error).toMatchObject({ message: 'stopping' }),
    );
    expect(await hasResult(pusher, order)).toBe(false);
    expect(await leftovers()).toEqual([]);
  });
});

describe('the cache of commits', () => {
  const fetches = (pusher: FakePusher): number =>
    pusher.requests.filter((path) => path.endsWith('git-upload-pack')).length;

  it('fetches a commit once, and only what is new of the next', async () => {
    const { pusher, run } = await setUp();
    const order = await pusher.order({ a: 'a' }, 'run: cat a\n');
    await run(order);
    const before = fetches(pusher);
    await pusher.git(['update-ref', '-d', order.resultRef]);
    await run(order);
    expect(fetches(pusher)).toBe(before);
  });

  it('fetches anew what turns out to be damaged', async () => {
    const { pusher, run, workFolder } = await setUp();
    const order = await pusher.order({ a: 'a' }, 'run: cat a\n');
    await run(order);
    const [name] = await readdir(workFolder.cacheDir);
    await rm(join(workFolder.cacheDir, name!, 'objects', 'pack'), { recursive: true });
    await expect(run(order)).rejects.toThrow('git ls-tree');
    expect(await run(order)).toEqual({ status: 'settled' });
  });

  it('recovers from what a killed process left, and drops a repository after many fetches', async () => {
    const { pusher, run, workFolder } = await setUp({ cache: { fetchesMax: 2 } });
    const orders = [];
    for (const name of ['a', 'b', 'c', 'd']) orders.push(await pusher.order({ [name]: name }, 'run: ls\n'));
    await run(orders[0]!);
    const [first] = await readdir(workFolder.cacheDir);
    await writeFile(join(workFolder.cacheDir, first!, 'shallow.lock'), '');
    for (const order of orders.slice(1)) expect(await run(order)).toEqual({ status: 'settled' });
    const kept = await readdir(workFolder.cacheDir);
    expect(kept).toHaveLength(1);
    expect(kept[0]).not.toBe(first);
  });
});
