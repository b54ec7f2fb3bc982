import { BOUNDS, canPipeline, inOneTrip, SluiceError, type DB } from '@sluice/db';
import type { Kysely } from 'kysely';
import { assertList, assertRepoId, assertText, assertWhole, invalid } from './assert-argument.ts';
import { toClaimedEffect, type ClaimedEffect, type ClaimedRow } from './claim.ts';
import { fairClaimLock, type LockRow } from './fair-claim-lock.ts';
import { fairClaimTake, type ClaimTurn, type TakenRow } from './fair-claim-take.ts';
import { inClaimTransaction } from './in-claim-transaction.ts';
import { assertReadCommitted } from './turn-lock.ts';

export interface FairClaimOptions {
  /** A dispatcher's id; any other name is that of a claimant without a heartbeat, whose claims are judged by their age. */
  claimedBy: string;
  /** Repos to look at, each at most once; where the global cap does not reach for all, the first ones get more. */
  turns: readonly ClaimTurn[];
  /** Cap of a repo that has none of its own. */
  defaultCap: number;
  /**
   * Longest wait for the turns of awaited repos, in ms: many times what a claim takes, but short, as those that were got
   * before are held meanwhile. The default is 250.
   */
  awaitMs?: number;
}

/** What a look at one repo showed. */
export interface ClaimFinding {
  repoId: string;
  /** False: another claimer has the repo's turn, nothing was looked at, and the rest of this finding says nothing. */
  locked: boolean;
  /** Effects taken. */
  got: number;
  /** Effects that could still be claimed before the repo is at its cap. */
  room: number;
  /** Its cap in force; null if not looked at. */
  cap: number | null;
  weight: number;
  isPaused: boolean;
  /** Pass it as `sinceClaimNumber` next time. Exact: no claim of this repo below it is open now or ever again. */
  lowestClaim: bigint | null;
  /** Pass it as `sinceEffectId` next time. A hint: drop it after a sweep, or when an effect below it is announced. */
  lowestWaiting: bigint | null;
  /** False: nothing else of this repo was waiting. True: something was, or this look did not go far enough to tell. */
  hasMore: boolean;
}

export interface FairClaim {
  effects: ClaimedEffect[];
  /** One per turn, in the same order. */
  findings: ClaimFinding[];
  /** Effects that could still be claimed before the queue is at its global cap; null: it has none. */
  globalRoom: number | null;
}

/** Most repos, and most effects, that one call may name. */
const TURNS_MAX = 10_000;
const CAP_MAX = 100_000;
const AWAIT_MS = 250;

/**
 * Claims effects of the named repos, up to each repo's cap and the global cap. Exact with any number of processes: at
 * every committed snapshot a repo has at most `cap` open claims. Waits for no repo that is not `isAwaited`: one that
 * another claimer is busy with is reported as not `locked`. Paused repos give nothing.
 *
 * One round trip on a database of `createDatabase`, without a pooler and outside a transaction.
 *
 * The caller decides which repos to look at and in what order (fairness); rows decide what is taken.
 *
 * @throws SluiceError `wrong_isolation` inside a transaction that is not READ COMMITTED; `dispatcher_gone` in the name of
 * a dispatcher that is registered no more: nobody would ever take back what it claims. The database's error 55P03 if an
 * awaited repo stayed busy for too long: nothing was claimed.
 */
export async function fairClaim(db: Kysely<DB>, options: FairClaimOptions): Promise<FairClaim> {
  assertOptions(options);
  const { turns, claimedBy } = options;
  if (turns.length === 0) return { effects: [], findings: [], globalRoom: null };
  const lock = fairClaimLock(
    turns.map((turn) => turn.repoId),
    claimedBy,
    {
      repoIds: turns.filter((turn) => turn.isAwaited === true).map((turn) => turn.repoId),
      ms: options.awaitMs ?? AWAIT_MS,
    },
  );
  const take = fairClaimTake(options);
  if (canPipeline(db)) {
    const [, locked, taken] = await inOneTrip(db, [BOUNDS, lock, take]);
    return readAnswers(options, locked as LockRow[], taken as TakenRow[]);
  }
  return await inClaimTransaction(db, async (trx) => {
    const { rows: locked } = await trx.executeQuery(lock);
    assertReadCommitted(locked[0]?.isolation);
    const { rows: taken } = await trx.executeQuery(take);
    return readAnswers(options, locked, taken);
  });
}

function readAnswers(
  options: FairClaimOptions,
  locked: readonly LockRow[],
  taken: readonly TakenRow[],
): FairClaim {
  if (taken.length === 0 && locked[0]!.held.includes('1')) throw dispatcherGone(options.claimedBy);
  return readTaken(options, taken);
}

function dispatcherGone(id: string): SluiceError {
  return new SluiceError(
    'dispatcher_gone',
    `claimedBy: expected a registered dispatcher, got ${id}, which was declared dead or unregistered. Register again, and claim under the new id.`,
  );
}

function readTaken({ claimedBy, turns }: FairClaimOptions, rows: readonly TakenRow[]): FairClaim {
  const looks = new Map<string, TakenRow>();
  const takes = new Map<string, TakenRow[]>();
  const effects: ClaimedEffect[] = [];
  for (const row of rows) {
    if (row.effect_id === null) {
      looks.set(row.repo_id, row);
      takes.set(row.repo_id, []);
    } else {
      takes.get(row.repo_id)?.push(row);
      effects.push(toClaimedEffect({ ...row, claimant: claimedBy } as ClaimedRow));
    }
  }
  const roomBefore = rows[0]?.global_room ?? null;
  const globalRoom = roomBefore === null ? null : roomBefore - effects.length;
  const findings = turns.map((turn) => {
    const look = looks.get(turn.repoId);
    return look === undefined
      ? notLocked(turn)
      : finding(turn, look, takes.get(turn.repoId)!, globalRoom === 0);
  });
  return { effects, findings, globalRoom };
}

function finding(
  turn: ClaimTurn,
  look: TakenRow,
  taken: readonly TakenRow[],
  isGlobalFull: boolean,
): ClaimFinding {
  const room = Math.max(0, look.cap! - look.open_claims!);
  const got = taken.length;
  return {
    repoId: turn.repoId,
    locked: true,
    got,
    room: room - got,
    cap: look.cap,
    weight: look.weight!,
    isPaused: look.is_paused!,
    lowestClaim: BigInt(look.lowest_claim!),
    lowestWaiting: lowestWaiting(turn, taken),
    hasMore: look.is_paused! || isGlobalFull || got === Math.min(turn.want, room),
  };
}

/**
 * The first effect just taken, not the one after the last: an effect whose transaction committed late has a lower id
 * than some that are claimed already, and is then still seen if it is late by less than one batch.
 */
function lowestWaiting(turn: ClaimTurn, taken: readonly TakenRow[]): bigint | null {
  const first = taken.find((row) => row.priority === 0);
  return first === undefined ? (turn.sinceEffectId ?? null) : BigInt(first.effect_id!);
}

function notLocked(turn: ClaimTurn): ClaimFinding {
  return {
    repoId: turn.repoId,
    locked: false,
    got: 0,
    room: 0,
    cap: null,
    weight: 1,
    isPaused: false,
    lowestClaim: turn.sinceClaimNumber ?? null,
    lowestWaiting: turn.sinceEffectId ?? null,
    hasMore: true,
  };
}

function assertOptions({ claimedBy, turns, defaultCap, awaitMs = AWAIT_MS }: FairClaimOptions): void {
  assertText('claimedBy', claimedBy, 200);
  assertWhole('defaultCap', defaultCap, 1, CAP_MAX);
  assertWhole('awaitMs', awaitMs, 1, 60_000);
  assertList('turns', turns, TURNS_MAX);
  const seen = new Set<string>();
  for (const [index, turn] of turns.entries()) {
    assertRepoId(`turns[${index}].repoId`, turn.repoId);
    assertWhole(`turns[${index}].want`, turn.want, 1, CAP_MAX);
    // Its claims would be counted twice before either is there to be counted.
    if (seen.has(turn.repoId)) {
      throw invalid(`turns[${index}].repoId`, 'a repo named once', turn.repoId, 'Add up what it wants.');
    }
    seen.add(turn.repoId);
  }
}
