import { isMet, type Finding, type Suite } from './suite.ts';
import type { Sample } from '../measure/statistics.ts';

/** Everything a reader needs to judge a result, and to get it again. */
export interface SuiteResult {
  suite: string;
  isQuick: boolean;
  /** Of the first finding; all of them are in `findings`. */
  sluice: Sample;
  peers: Finding['peers'];
  ratio: number;
  target: Finding['target'];
  /** Whether every target is met. */
  met: boolean;
  findings: (Finding & { met: boolean })[];
  machine: Record<string, string | number>;
  server: Record<string, string>;
  seconds: number;
}

export function resultOf(
  suite: Suite,
  findings: readonly Finding[],
  about: Pick<SuiteResult, 'isQuick' | 'machine' | 'server' | 'seconds'>,
): SuiteResult {
  const [first] = findings;
  if (first === undefined) throw new Error(`${suite.name}: expected findings, got none`);
  const { sluice, peers, ratio, target } = first;
  const judged = findings.map((finding) => ({ ...finding, met: isMet(finding) }));
  return {
    suite: suite.name,
    isQuick: about.isQuick,
    sluice,
    peers,
    ratio,
    target,
    met: judged.every((finding) => finding.met),
    findings: judged,
    machine: about.machine,
    server: about.server,
    seconds: about.seconds,
  };
}

/** The result as text for a terminal. */
export function formatResult(suite: Suite, result: SuiteResult): string {
  const lines = [`${suite.name}${result.isQuick ? ' (quick)' : ''}: ${suite.about}`];
  for (const finding of result.findings) {
    lines.push('', finding.name);
    const rows = [['sluice', finding.sluice] as const, ...Object.entries(finding.peers)];
    const width = Math.max(...rows.map(([name]) => name.length));
    for (const [name, sample] of rows) {
      if (sample !== undefined) lines.push(`  ${name.padEnd(width)}  ${formatSample(sample, finding.unit)}`);
    }
    lines.push(`  ratio ${formatNumber(finding.ratio)} (${finding.ratioOf})${formatTarget(finding)}`);
  }
  const { server_version: version, ...settings } = result.server;
  const machine = Object.entries(result.machine).map(([name, value]) => `${name} ${value}`);
  lines.push(
    '',
    `PostgreSQL ${version}, ${machine.join(', ')}, ${Math.round(result.seconds)} s`,
    Object.entries(settings)
      .map(([name, value]) => `${name}=${value}`)
      .join(' '),
  );
  return lines.join('\n');
}

function formatSample({ median, spread, runs }: Sample, unit: string): string {
  const spreadText = runs > 1 ? `, spread ${Math.round(100 * spread)} % of ${runs} runs` : ', one run';
  return `${formatNumber(median)}${unit === '' ? '' : ` ${unit}`}${spreadText}`;
}

function formatTarget(finding: Finding & { met: boolean }): string {
  const { target, met } = finding;
  if (target === undefined) return ', no target';
  const bound = 'atLeast' in target ? `at least ${target.atLeast}` : `at most ${target.atMost}`;
  return `, target ${bound}: ${met ? 'met' : 'MISSED'}`;
}

function formatNumber(value: number): string {
  return Math.abs(value) >= 1_000 ? String(Math.round(value)) : String(Number(value.toPrecision(3)));
}
