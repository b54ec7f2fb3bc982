import type { Finding } from '../harness/suite.ts';
import { unlawful, type CapReport } from '../measure/cap-watch.ts';
import type { Books } from '../measure/conservation.ts';
import { percentile, summarise } from '../measure/statistics.ts';
import type { News } from './exact-news.ts';

/** What a run showed. */
export interface ExactRun {
  globalCap: number | null;
  enqueued: number;
  /** When each lowered cap was in force. */
  lowered: ReadonlyMap<string, number>;
  open: CapReport;
  books: Books;
  news: News;
  faults: { kills: number; freezes: number };
}

/** What must not happen, and whether the run put it to the test. */
export function exactFindings(run: ExactRun): Finding[] {
  const { globalCap, enqueued, lowered, open, books, news, faults } = run;
  const where = globalCap === null ? 'no global cap' : `global cap ${globalCap}`;
  const broken = unlawful(open.excesses, lowered);
  const share = (count: number): number => (100 * count) / open.snapshots;
  const findings = [
    none(`repos above their cap, in ${open.snapshots} snapshots`, broken.length, {
      'above a lowered cap, by older claims only': open.excesses.length - broken.length,
    }),
    none('two claims of one effect, refused by its index', news.collisions),
    none(
      `effects not finished exactly once with their outcome, of ${enqueued}`,
      books.lost.length + books.surplus.length + books.wrong.length,
      { lost: books.lost.length, surplus: books.surplus.length, wrong: books.wrong.length },
    ),
    none('late completions believed', books.believed.length + books.deceived.length, {
      'accepted, and another one won': books.deceived.length,
      'told: accepted': news.accepted.size,
      'told: too late': news.stale.size,
    }),
    enough('late completions', news.lateCompletions, 1, {
      'dispatchers killed': faults.kills,
      'dispatchers frozen': faults.freezes,
    }),
    enough('percent of snapshots with a repo at its cap', share(open.atCap), 5),
    enough('snapshots per second', open.snapshots / (sum(open.gaps) / 1_000), 20, {
      'ms between two, p50': percentile(open.gaps, 50),
      'ms between two, p95': percentile(open.gaps, 95),
      'ms between two, p99': percentile(open.gaps, 99),
      'ms between two, most': percentile(open.gaps, 100),
    }),
  ];
  if (globalCap !== null)
    findings.push(
      none('snapshots above the global cap', open.aboveGlobalCap, { 'most open claims': open.highestTotal }),
      enough('percent of snapshots at the global cap', share(open.atGlobalCap), 2),
    );
  return findings.map((finding) => ({ ...finding, name: `${where}: ${finding.name}` }));
}

/** Something that must not happen. */
function none(name: string, count: number, beside: Record<string, number> = {}): Finding {
  return finding(name, count, { atMost: 0 }, beside);
}

/** Something that has to happen often enough, or else the run showed nothing. */
function enough(name: string, value: number, atLeast: number, beside: Record<string, number> = {}): Finding {
  return finding(name, value, { atLeast }, beside);
}

function finding(
  name: string,
  value: number,
  target: Finding['target'],
  beside: Record<string, number>,
): Finding {
  const peers = Object.entries(beside).map(([label, other]) => [label, summarise([other])] as const);
  return {
    name,
    unit: '',
    sluice: summarise([value]),
    peers: Object.fromEntries(peers),
    ratio: value,
    ratioOf: 'the number itself',
    ...(target === undefined ? {} : { target }),
  };
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
