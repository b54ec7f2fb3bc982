import { inBoundedTransaction, PREPARED, SCHEMA, SluiceError, type DB } from '@sluice/db';
import { sql, type Kysely } from 'kysely';
import {
  assertList,
  assertRepoId,
  assertText,
  assertWhole,
  invalid,
  isDispatcherId,
} from './assert-argument.ts';
import { toClaimedEffect, type ClaimedEffect, type ClaimedRow } from './claim.ts';
import { filled, once, templateOf } from './template.ts';
import { wrongIsolation } from './turn-lock.ts';

/** A repo to claim from. */
export interface ClaimTurn {
  repoId: string;
  /** Most effects to take. */
  want: number;
  /** `lowestClaim` of the last finding: no claim of this repo below it is open. Exact, so it may bound the count. */
  sinceClaimNumber?: bigint | undefined;
  /** `lowestWaiting` of the last finding: a hint. Effects of priority 0 below it are not looked at. */
  sinceEffectId?: bigint | undefined;
  /**
   * Wait until other claimers are done with this repo, for a moment (`awaitMs`). For one that was found busy: claims that
   * take what others leave do not add up to fair shares. Where a global cap is set, claims come one after the other, and
   * nothing is waited for.
   */
  isAwaited?: boolean | undefined;
}

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
 * One statement, a call of the function `fair_claim`: it locks the repos' turns first, and counts and takes in a later
 * snapshot, which shows everything that earlier holders of the turns committed. Only holders of a repo's turn open its
 * claims, so a count cannot be too low. Cost, with n effects taken from m repos: m descents of three indexes, the open
 * claims of each repo, and n rows. Neither the backlog of a repo nor finished effects are read.
 *
 * The caller decides which repos to look at and in what order (fairness); rows decide what is taken.
 *
 * @throws SluiceError `wrong_isolation` inside a transaction that is not READ COMMITTED; `dispatcher_gone` in the name of
 * a dispatcher that is registered no more: nobody would ever take back what it claims. The database's error 55P03 if an
 * awaited repo stayed busy for too long: nothing was claimed.
 */
export async function fairClaim(db: Kysely<DB>, options: FairClaimOptions): Promise<FairClaim> {
  assertOptions(options);
  if (options.turns.length === 0) return { effects: [], findings: [], globalRoom: null };
  const claim = fairClaimQuery(options);
  const { rows } = await db.executeQuery(claim);
  if (rows[0]?.refused !== 'wrong_isolation') return readTaken(options, rows);
  if (db.isTransaction) throw wrongIsolation();
  // The server's default is another isolation level.
  return await inBoundedTransaction(db, async (trx) =>
    readTaken(options, (await trx.executeQuery(claim)).rows),
  );
}

function fairClaimQuery({ claimedBy, turns, defaultCap, awaitMs = AWAIT_MS }: FairClaimOptions) {
  return filled<TakenRow, Name>(template(), {
    claimedBy,
    isDispatcher: isDispatcherId(claimedBy),
    repoIds: turns.map((turn) => turn.repoId),
    wants: turns.map((turn) => turn.want),
    sinceClaims: turns.map((turn) => turn.sinceClaimNumber ?? 0n),
    sinceEffects: turns.map((turn) => turn.sinceEffectId ?? 0n),
    awaitedIds: turns.filter((turn) => turn.isAwaited === true).map((turn) => turn.repoId),
    awaitMs,
    defaultCap,
  });
}

type Name =
  | 'claimedBy'
  | 'isDispatcher'
  | 'repoIds'
  | 'wants'
  | 'sinceClaims'
  | 'sinceEffects'
  | 'awaitedIds'
  | 'awaitMs'
  | 'defaultCap';

const template = once(() =>
  templateOf<Name>(
    (value) => sql`${PREPARED}select * from ${sql.id(SCHEMA, 'fair_claim')}(
      ${value('claimedBy')}, ${value('isDispatcher')}, ${value('repoIds')}::text[], ${value('wants')}::integer[],
      ${value('sinceClaims')}::bigint[], ${value('sinceEffects')}::bigint[], ${value('awaitedIds')}::text[],
      ${value('awaitMs')}::integer, ${value('defaultCap')}::integer)`,
  ),
);

/** A row of the function's answer: first how it went, then each repo that was looked at, then each effect taken. */
type TakenRow = ClaimedRow & {
  refused: 'wrong_isolation' | 'dispatcher_gone' | null;
  global_room: number | null;
  weight: number;
  cap: number;
  open_claims: number;
  is_paused: boolean;
  lowest_claim: string;
  priority: number;
};

function dispatcherGone(id: string): SluiceError {
  return new SluiceError(
    'dispatcher_gone',
    `claimedBy: expected a registered dispatcher, got ${id}, which was declared dead or unregistered.`,
  );
}

function readTaken({ claimedBy, turns }: FairClaimOptions, rows: readonly TakenRow[]): FairClaim {
  const [summary, ...others] = rows;
  if (summary?.refused === 'wrong_isolation') throw wrongIsolation();
  if (summary?.refused === 'dispatcher_gone') throw dispatcherGone(claimedBy);
  const looks = new Map<string, { look: TakenRow; taken: TakenRow[] }>();
  const effects: ClaimedEffect[] = [];
  for (const row of others) {
    const known = looks.get(row.repo_id);
    if (known === undefined) looks.set(row.repo_id, { look: row, taken: [] });
    else {
      known.taken.push(row);
      effects.push(toClaimedEffect({ ...row, claimant: claimedBy }));
    }
  }
  const roomBefore = summary?.global_room ?? null;
  const globalRoom = roomBefore === null ? null : roomBefore - effects.length;
  const findings = turns.map((turn) => {
    const known = looks.get(turn.repoId);
    return known === undefined ? notLocked(turn) : finding(turn, known.look, known.taken, globalRoom === 0);
  });
  return { effects, findings, globalRoom };
}

function finding(
  turn: ClaimTurn,
  look: TakenRow,
  taken: readonly TakenRow[],
  isGlobalFull: boolean,
): ClaimFinding {
  const room = Math.max(0, look.cap - look.open_claims);
  const got = taken.length;
  return {
    repoId: turn.repoId,
    locked: true,
    got,
    room: room - got,
    cap: look.cap,
    weight: look.weight,
    isPaused: look.is_paused,
    lowestClaim: BigInt(look.lowest_claim),
    lowestWaiting: lowestWaiting(turn, taken),
    hasMore: look.is_paused || isGlobalFull || got === Math.min(turn.want, room),
  };
}

/**
 * The first effect just taken, not the one after the last: an effect whose transaction committed late has a lower id
 * than some that are claimed already, and is then still seen if it is late by less than one batch.
 */
function lowestWaiting(turn: ClaimTurn, taken: readonly TakenRow[]): bigint | null {
  const first = taken.find((row) => row.priority === 0);
  return first === undefined ? (turn.sinceEffectId ?? null) : BigInt(first.effect_id);
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
