import { inBoundedTransaction } from '@sluice/db';
import { decodeWorkOrder } from '@sluice/effect-spec';
import { claimEffects, completeEffect, type ClaimedEffect } from '@sluice/queue-core/repo';
import { commitFiles, defineEffect, gitIn, makeRepo, type Git } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { readClaimRef } from '../src/push/claim-ref.ts';
import { preamble, reportOf, sendPush } from './raw-push.ts';
import { usePusher } from './use-pusher.ts';

const pusher = usePusher();
let count = 0;

interface Scene {
  url: string;
  repoId: string;
  work: Git;
  claim: ClaimedEffect;
  resultRef: string;
  claimUrl: string;
}

async function scene(definition = 'on: [refs/heads/*]\nrun: make\n'): Promise<Scene> {
  const { url } = await pusher.start();
  count += 1;
  const repoId = `result/r${count}`;
  const work = await makeRepo(`${pusher.folder}/work`);
  await commitFiles(work, { 'a.txt': 'one' });
  await defineEffect(work, 'ci', definition);
  await work(['push', '--quiet', `${url}/${repoId}.git`, 'main', 'refs/meta/effects/ci']);
  return { ...(await claimNext(url, repoId)), url, repoId, work };
}

async function claimNext(
  url: string,
  repoId: string,
): Promise<Pick<Scene, 'claim' | 'resultRef' | 'claimUrl'>> {
  const [claim] = await claimEffects(pusher.database.db, { repoId, claimedBy: 'tester', limit: 1 });
  const decoded = decodeWorkOrder(claim!.payload);
  if ('problem' in decoded) throw new Error(decoded.problem);
  return {
    claim: claim!,
    resultRef: decoded.order.resultRef,
    claimUrl: `${url}/_claim/${claim!.claimNumber}/${repoId}.git`,
  };
}

/** Stores a result commit in the local repository and returns its OID. */
async function makeResult(
  git: Git,
  claim: ClaimedEffect,
  fields: Record<string, unknown> = {},
  parent?: string,
): Promise<string> {
  const text = JSON.stringify({
    effectId: String(claim.effectId),
    attempt: claim.attempt,
    outcome: 'pass',
    ...fields,
  });
  const blob = await git(['hash-object', '-w', '--stdin'], { input: text });
  const tree = await git(['mktree'], { input: `100644 blob ${blob}\tresult.json\n` });
  return await git(['commit-tree', tree, ...(parent === undefined ? [] : ['-p', parent]), '-m', 'Result']);
}

async function stateOf({
  repoId,
}: Scene): Promise<{ state: string; outcome: string | null; result_ref: string | null }[]> {
  const rows = await pusher.database.db
    .selectFrom('effect')
    .select(['state', 'outcome', 'result_ref'])
    .where('repo_id', '=', repoId)
    .execute();
  return rows as { state: string; outcome: string | null; result_ref: string | null }[];
}

async function resultRefsOf({ repoId }: Scene): Promise<string[]> {
  const rows = await pusher.database.db
    .selectFrom('ref')
    .select('oid')
    .where('repo_id', '=', repoId)
    .where('name', 'like', 'refs/meta/results/%')
    .execute();
  return rows.map(({ oid }) => oid);
}

test('a result and the completion of its effect are one push, and everybody can fetch it', async () => {
  const s = await scene();
  const result = await makeResult(s.work, s.claim, { outcome: 'fail', reason: 'exit code 2' });
  const pushed = await s.work.attempt(['push', s.claimUrl, `${result}:${s.resultRef}`]);
  expect([pushed.code, pushed.stderr]).toEqual([0, expect.stringContaining('remote: push ')]);
  expect(await stateOf(s)).toEqual([{ state: 'done', outcome: 'fail', result_ref: s.resultRef }]);
  expect(await resultRefsOf(s)).toEqual([result]);
  const reader = gitIn(pusher.folder);
  await reader(['clone', '--quiet', `${s.url}/${s.repoId}.git`, 'clone']);
  await gitIn(`${pusher.folder}/clone`)(['fetch', '--quiet', 'origin', `${s.resultRef}:${s.resultRef}`]);
  expect(await gitIn(`${pusher.folder}/clone`)(['rev-parse', s.resultRef])).toBe(result);
});

test('the URL of a claim shows its own result ref and nothing else', async () => {
  const s = await scene();
  const advertised = await fetch(`${s.claimUrl}/info/refs?service=git-receive-pack`);
  expect(await advertised.text()).not.toContain('refs/heads/main');
  const fetching = await s.work.attempt(['fetch', s.claimUrl]);
  expect([fetching.code, fetching.stderr]).toEqual([
    128,
    expect.stringContaining(
      `remote: nothing is fetched from the URL of a claim, which takes its result: expected /${s.repoId}.git`,
    ),
  ]);
});

test('only exactly the result ref of the claim passes', async () => {
  const s = await scene();
  const result = await makeResult(s.work, s.claim);
  const other = s.resultRef.replace(/[0-9a-f]{40}$/, 'e'.repeat(40));
  for (const refspecs of [
    [`${result}:${other}`],
    [`${result}:refs/heads/main`],
    [`${result}:${s.resultRef}`, `${result}:refs/heads/x`],
    ['main:refs/heads/x'],
  ]) {
    const pushed = await s.work.attempt(['push', '--force', s.claimUrl, ...refspecs]);
    expect([pushed.code, pushed.stderr]).toEqual([1, expect.stringContaining('alone to be set')]);
  }
  const plain = await s.work.attempt(['push', `${s.url}/${s.repoId}.git`, `${result}:${s.resultRef}`]);
  expect(plain.stderr).toContain('results are written by dispatchers');
  expect(await stateOf(s)).toMatchObject([{ state: 'claimed' }]);
  expect(await resultRefsOf(s)).toEqual([]);
});

test.each([
  ['no JSON', 'not json', 'expected JSON'],
  ['an unknown outcome', { outcome: 'great' }, 'outcome: expected pass, fail, timeout or remote'],
  ['another effect', { effectId: '999999' }, 'expected effect'],
  ['another attempt', { attempt: 7 }, 'attempt 7'],
  ['no attempt', { attempt: null }, 'attempt: expected'],
])('a result with %s is refused and completes nothing', async (_, fields, reason) => {
  const s = await scene();
  let result: string;
  if (typeof fields === 'string') {
    const blob = await s.work(['hash-object', '-w', '--stdin'], { input: fields });
    const tree = await s.work(['mktree'], { input: `100644 blob ${blob}\tresult.json\n` });
    result = await s.work(['commit-tree', tree, '-m', 'Result']);
  } else result = await makeResult(s.work, s.claim, fields);
  const pushed = await s.work.attempt(['push', s.claimUrl, `${result}:${s.resultRef}`]);
  expect([pushed.code, pushed.stderr]).toEqual([1, expect.stringContaining(reason)]);
  expect(await stateOf(s)).toMatchObject([{ state: 'claimed' }]);
  expect(await resultRefsOf(s)).toEqual([]);
});

test('who lost the claim cannot write a result', async () => {
  const s = await scene();
  const result = await makeResult(s.work, s.claim);
  expect(await completeEffect(pusher.database.db, s.claim)).toBe('completed');
  const late = await s.work.attempt(['push', s.claimUrl, `${result}:${s.resultRef}`]);
  expect([late.code, late.stderr]).toEqual([128, expect.stringContaining('is gone')]);
  const unknown = s.claimUrl.replace(/_claim\/\d+/, '_claim/999999999');
  expect((await s.work.attempt(['push', unknown, `${result}:${s.resultRef}`])).code).toBe(128);
  // Sent a second time without a new look at the refs, as curl does by itself when a connection breaks.
  const repeated = await sendPush(s.claimUrl, preamble([{ new: result, name: s.resultRef }]));
  expect(reportOf(repeated)).toContain(`ng ${s.resultRef} claim ${s.claim.claimNumber} is gone`);
  const elsewhere = s.claimUrl.replace(s.repoId, 'other/repo');
  expect((await s.work.attempt(['push', elsewhere, `${result}:${s.resultRef}`])).code).toBe(128);
  expect(await resultRefsOf(s)).toEqual([]);
});

test('a rerun of the same commit moves its result ref, with the old value known', async () => {
  const s = await scene('on: [refs/heads/*]\nrun: make\ndedup: push\n');
  const first = await makeResult(s.work, s.claim);
  await s.work(['push', '--quiet', s.claimUrl, `${first}:${s.resultRef}`]);
  await s.work(['push', '--quiet', `${s.url}/${s.repoId}.git`, 'main:again']);
  const next = await claimNext(s.url, s.repoId);
  expect(next.resultRef).toBe(s.resultRef);
  const second = await makeResult(s.work, next.claim, {}, first);
  await s.work(['push', '--quiet', next.claimUrl, `${second}:${s.resultRef}`]);
  expect(await resultRefsOf(s)).toEqual([second]);
  expect(await stateOf(s)).toMatchObject([{ state: 'done' }, { state: 'done' }]);
});

test('results cause effects only where a definition asks for it, and a chain of them ends', async () => {
  const s = await scene('on: { refs: [refs/heads/*, "refs/meta/results/**"], meta: true }\nrun: make\n');
  let { claim, claimUrl, resultRef } = s;
  const hops: number[] = [];
  for (let step = 0; step < 10; step += 1) {
    const decoded = decodeWorkOrder(claim.payload);
    hops.push('order' in decoded ? decoded.order.hops : -1);
    const result = await makeResult(s.work, claim, { step });
    const pushed = await s.work.attempt(['push', claimUrl, `${result}:${resultRef}`]);
    expect(pushed.code).toBe(0);
    if (pushed.stderr.includes('skipped: caused by a chain')) break;
    ({ claim, claimUrl, resultRef } = await claimNext(s.url, s.repoId));
  }
  expect(hops).toEqual([0, 1, 2, 3, 4]);
});

test('a pusher that stands still after its look at a claim holds up no completion', async () => {
  const { repoId, claim, resultRef } = await scene();
  const { db } = pusher.database;
  await db.transaction().execute(async (looking) => {
    const { claimNumber } = claim;
    expect(await readClaimRef(looking, { repoId, claimNumber })).toBe(resultRef);
    const completing = inBoundedTransaction(db, (trx) => completeEffect(trx, claim, { outcome: 'pass' }));
    expect(await completing).toBe('completed');
  });
});
