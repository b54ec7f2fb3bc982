import type { DB } from '@sluice/db';
import type { Kysely, Transaction } from 'kysely';
import * as dispatcher from '../src/dispatcher.ts';
import * as repo from '../src/repo.ts';

const DAY_MS = 86_400_000;
const PAYLOAD = '{"snake_case":[1,"2"]}';

/**
 * Calls every operation of both doors, each where it has something to do, and returns what they answered by their names:
 * what differs from one time to the next (ids, instants, ages) as its type. The queue is empty before, and has a repo
 * `limited` with a max_queued of 1 and a repo `paused`.
 */
export async function everyOperation(db: Kysely<DB>): Promise<Record<string, unknown>> {
  const answers: Record<string, unknown> = {};
  const ask = async <T>(name: string, answer: Promise<T>): Promise<T> => {
    const got = await answer;
    answers[name] = shapeOf(got);
    return got;
  };
  const turn = (repoId: string) => ({ turns: [{ repoId, want: 1 }], claimedBy: id, defaultCap: 9 });

  await ask('maintainPartitions', dispatcher.maintainPartitions(db, { daysAhead: 1, retentionDays: 30 }));
  const id = await ask(
    'registerDispatcher',
    dispatcher.registerDispatcher(db, { host: 'h', pid: 1, slots: 9, leaseMs: 60_000 }),
  );
  await ask('heartbeat', dispatcher.heartbeat(db, id));
  await ask('setSleeping', dispatcher.setSleeping(db, id, true));

  const first = await ask(
    'enqueueEffect',
    repo.enqueueEffect(db, { repoId: 'a', payload: PAYLOAD, name: 'build_all', dedupKey: 'k', priority: 1 }),
  );
  const duplicate = await repo.enqueueEffect(db, { repoId: 'a', payload: '', dedupKey: 'k' });
  const [older, newer, far, , soon] = await ask(
    'enqueueEffects',
    repo.enqueueEffects(db, [
      { repoId: 'a', payload: PAYLOAD, concurrencyGroup: 'g', dedupKey: 'l' },
      { repoId: 'a', payload: PAYLOAD, concurrencyGroup: 'g', supersede: true },
      { repoId: 'limited', payload: PAYLOAD, runAt: new Date(Date.now() + DAY_MS) },
      { repoId: 'limited', payload: PAYLOAD, pushId: 'p' },
      { repoId: 'paused', payload: PAYLOAD },
    ]),
  );
  await ask('skipEffects', repo.skipEffects(db, [{ repoId: 'a', payload: PAYLOAD, reason: 'why' }]));
  await repo.enqueueEffects(
    db,
    Array.from({ length: 12 }, (_, n) => ({ repoId: 'b', payload: `[${n}]`, maxAttempts: 1 + (n % 2) })),
  );
  const arrivals = await ask('arrivalsAfter', dispatcher.arrivalsAfter(db, { effectId: first, limit: 99 }));
  const highest = await ask('highestEffectId', dispatcher.highestEffectId(db));

  const [claimed] = await ask(
    'claimEffects',
    repo.claimEffects(db, { repoId: 'a', claimedBy: 'w', limit: 1 }),
  );
  await ask('findClaim', repo.findClaim(db, claimed!));
  await ask(
    'openClaim',
    inTransaction(db, (trx) => repo.openClaim(trx, claimed!)),
  );
  await ask('runningEffects', dispatcher.runningEffects(db));
  await ask('queueByRepo', dispatcher.queueByRepo(db));
  await ask('queueTotals', dispatcher.queueTotals(db));
  await ask(
    'oldestWaitingMs',
    dispatcher.oldestWaitingMs(db).then((ms) => typeof ms),
  );
  await ask('waitingEffects', dispatcher.waitingEffects(db, { defaultCap: 9 }));
  await ask('completeEffect', repo.completeEffect(db, claimed!, { outcome: 'fail', reason: '{"r":1}' }));
  const again = await ask('rerunEffect', repo.rerunEffect(db, { repoId: 'a', effectId: first }));

  const { effects } = await ask('fairClaim', dispatcher.fairClaim(db, turn('b')));
  await ask(
    'appendLog',
    dispatcher.appendLog(db, effects[0]!, [{ seq: 1, bytes: Buffer.from([0, 92, 255]) }]),
  );
  const [chunk] = await ask('readLog', dispatcher.readLog(db, { effectId: effects[0]!.effectId }));
  await ask('dispatcherHandBack', dispatcher.dispatcherHandBack(db, effects));
  const some = await ask(
    'dispatcherClaim',
    dispatcher.dispatcherClaim(db, { claimedBy: id, limit: 4, excludeRepos: ['a'] }),
  );
  const open = await ask('dispatcherClaimsOf', dispatcher.dispatcherClaimsOf(db, id));
  await ask('dispatcherComplete', dispatcher.dispatcherComplete(db, some[0]!));
  await ask(
    'dispatcherCompleteMany',
    dispatcher.dispatcherCompleteMany(db, [{ claim: some[2]!, outcome: 'pass', resultRef: 'refs/r' }]),
  );
  const failure = { error: '["why"]', retryInMs: 0 };
  const failed = [
    await ask('dispatcherFail', dispatcher.dispatcherFail(db, { claim: some[1]!, ...failure })),
    await ask(
      'dispatcherFailMany',
      dispatcher.dispatcherFailMany(db, [{ claim: some[3]!, ...failure, isPoison: true }]),
    ),
  ];
  await repo.claimEffects(db, { repoId: 'a', claimedBy: 'stale', limit: 1 });
  await ask('dispatcherRequeueStale', dispatcher.dispatcherRequeueStale(db, { olderThanMs: 0 }));
  await ask('promoteDue', dispatcher.promoteDue(db, { limit: 9 }));
  await ask(
    'cancelEffects',
    repo.cancelEffects(db, { repoId: 'limited', effectIds: [far!.effectId], reason: 'why' }),
  );
  await ask('finishedEffects', dispatcher.finishedEffects(db));
  const found = await ask('findEffect', dispatcher.findEffect(db, first));
  const waiting = await dispatcher.findEffect(db, soon!.effectId);
  await ask('readyRepos', dispatcher.readyRepos(db, { limit: 9 }));

  await ask('recordOp', repo.recordOp(db, { repoId: 'a', opOid: 'a'.repeat(40) }));
  await repo.recordOp(db, { repoId: 'a', opOid: 'a'.repeat(40) });
  await ask('opRecords', repo.opRecords(db, { repoId: 'a' }));
  await ask('countDeadRows', dispatcher.countDeadRows(db));
  if (!db.isTransaction) await ask('vacuumHotTable', dispatcher.vacuumHotTable(db, 'effect_claim'));
  await ask('unregisterDispatcher', dispatcher.unregisterDispatcher(db, id));

  answers['and'] = {
    isDuplicateTheFirst: duplicate === first,
    isClaimedTheFirst: claimed!.effectId === first,
    isFoundTheFirst: found!.effectId === first && found!.claimNumber === claimed!.claimNumber,
    isSuperseded: newer!.status === 'queued' && newer!.superseded[0] === older!.effectId,
    isAgainLast: BigInt(again!) > highest && arrivals.every((arrival) => arrival.effectId <= highest),
    areOpen: open.every((claim, n) => claim.claimNumber === some[n]!.claimNumber),
    output: [...chunk!.bytes],
    payload: found!.payload,
    failed,
    waitsFor: shapeOf(waiting!.waitsFor),
    isOfNow: Math.abs(Date.now() - found!.finishedAt!.getTime()) < DAY_MS / 2,
  };
  return answers;
}

async function inTransaction<T>(db: Kysely<DB>, run: (trx: Transaction<DB>) => Promise<T>): Promise<T> {
  return db.isTransaction ? await run(db as Transaction<DB>) : await db.transaction().execute(run);
}

function shapeOf(value: unknown): unknown {
  if (typeof value === 'bigint') return 'a bigint';
  if (typeof value === 'string')
    return value.replaceAll(/\d{16,}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, 'an id');
  if (typeof value !== 'object' || value === null) return value;
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'an invalid Date' : 'a Date';
  if (value instanceof Uint8Array) return 'bytes';
  if (Array.isArray(value)) return value.map(shapeOf);
  const isCount = value instanceof Map;
  const entries = isCount ? [...value] : Object.entries(value);
  return Object.fromEntries(
    entries.map(([key, one]) => [key, isCount || String(key).endsWith('Ms') ? typeof one : shapeOf(one)]),
  );
}
