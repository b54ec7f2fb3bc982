import { DEFINITION_PREFIX, MEMBER_PREFIX, RESULT_PREFIX } from '@sluice/effect-spec';
import { checkNameToSet, checkRefName, NOT_APPLIED, zeroOid, type ObjectFormat } from '@sluice/ref-store';
import type { Command } from '../wire/preamble.ts';
import type { RefReport } from '../wire/report-status.ts';
import { MEMBERS_MAX } from './governance.ts';
import { DEFINITIONS_MAX } from './read-definitions.ts';

export interface GateRules {
  objectFormat: ObjectFormat;
  /** The one result ref that a claim may write; null: an ordinary push, which may write every other ref. */
  claimRef: string | null;
}

/**
 * Judges what a push asks for by names alone, before a byte of its pack is read. Returns a reason for every ref, or
 * null if the push may go on. One fault refuses all: a push is applied whole or not at all.
 */
export function judgeCommands(commands: readonly Command[], rules: GateRules): RefReport[] | null {
  const tooMany = faultOfNumber(commands, rules);
  if (tooMany !== null) return refuseAll(commands, tooMany);
  const seen = new Set<string>();
  const faults = commands.map((command) => judgeCommand(command, rules, seen));
  if (faults.every((fault) => fault === null)) return null;
  return commands.map(({ name }, index) => ({ name, reason: faults[index] ?? NOT_APPLIED }));
}

/** What each push reads anew may not be more than a repository can have. */
const MOST = [
  { prefix: DEFINITION_PREFIX, max: DEFINITIONS_MAX, what: 'effect definitions' },
  { prefix: MEMBER_PREFIX, max: MEMBERS_MAX, what: 'members' },
];

function faultOfNumber(commands: readonly Command[], { objectFormat }: GateRules): string | null {
  const zero = zeroOid(objectFormat);
  for (const { prefix, max, what } of MOST) {
    const pushed = commands.filter(
      ({ name, newOid }) => newOid !== zero && name.toString('latin1', 0, prefix.length) === prefix,
    );
    if (pushed.length > max) {
      return `expected at most ${max} ${what} in a repository, got ${pushed.length} in this push`;
    }
  }
  return null;
}

/** One reason for all refs. */
export function refuseAll(commands: readonly Command[], reason: string): RefReport[] {
  return commands.map(({ name }) => ({ name, reason }));
}

/** One reason for all refs, or one for each ref that has a fault. */
export function reportsOf(
  commands: readonly Command[],
  reasons: ReadonlyMap<string, string> | string,
): RefReport[] {
  if (typeof reasons === 'string') return refuseAll(commands, reasons);
  return commands.map(({ name }) => ({ name, reason: reasons.get(name.toString('utf8')) ?? NOT_APPLIED }));
}

function judgeCommand({ name, oldOid, newOid }: Command, rules: GateRules, seen: Set<string>): string | null {
  const zero = zeroOid(rules.objectFormat);
  const bad = newOid === zero ? checkRefName(name) : checkNameToSet(name);
  if (bad !== null) return `bad name: ${bad}`;
  const text = name.toString('utf8');
  if (seen.has(text)) return 'named more than once in this push';
  seen.add(text);
  if (oldOid.length !== zero.length || newOid.length !== zero.length) {
    return `expected ${rules.objectFormat} object names`;
  }
  if (oldOid === zero && newOid === zero) return 'expected an old or a new value, got neither';
  if (rules.claimRef !== null) {
    return text === rules.claimRef && newOid !== zero ? null : `expected ${rules.claimRef} alone to be set`;
  }
  // The folder's own name as well: a ref of that name would keep every ref below it from being made.
  return `${text}/`.startsWith(RESULT_PREFIX)
    ? 'results are written by dispatchers, through the URL of their claim'
    : null;
}
