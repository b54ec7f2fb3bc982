import { lookUpObjects, type LookUpOptions } from '../git/look-up-objects.ts';
import type { Outcome } from '@sluice/queue-core/repo';
import { readBroughtFile, type ReadBrought } from './brought-objects.ts';

/** What a result commit says about its effect. */
export interface Result {
  effectId: string;
  attempt: number;
  outcome: Outcome;
  reason: string | null;
}

const RESULT_FILE = 'result.json';
const RESULT_BYTES_MAX = 256 * 1024;
const REASON_CHARACTERS_MAX = 2000;

/** Reads `result.json` of a result commit; a text says what is wrong with it. */
export async function readResult(
  commit: string,
  git: Omit<LookUpOptions, 'withContent'>,
  readBrought?: ReadBrought,
): Promise<Result | string> {
  const brought =
    readBrought === undefined ? undefined : await readBroughtFile(readBrought, { commit, file: RESULT_FILE });
  if (brought !== undefined) return parseResult(brought.toString('utf8'));
  const expression = `${commit}:${RESULT_FILE}`;
  const [found] = await lookUpObjects([expression], git);
  if (found === null || found === undefined || found.kind !== 'blob') {
    return `expected a file ${RESULT_FILE} in the result commit, got none`;
  }
  if (found.bytes > RESULT_BYTES_MAX) {
    return `${RESULT_FILE}: expected at most ${RESULT_BYTES_MAX} bytes, got ${found.bytes}`;
  }
  const [file] = await lookUpObjects([found.oid], { ...git, withContent: true });
  return parseResult(file?.content?.toString('utf8') ?? '');
}

/** Checks the text of a `result.json`. Fields that are not known here are left alone. */
export function parseResult(text: string): Result | string {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return `${RESULT_FILE}: expected JSON`;
  }
  if (typeof value !== 'object' || value === null) return `${RESULT_FILE}: expected an object`;
  const { effectId, attempt, outcome, reason = null } = value as Record<string, unknown>;
  if (typeof effectId !== 'string' || !/^[1-9][0-9]{0,18}$/.test(effectId)) {
    return `${RESULT_FILE}: effectId: expected the effect's id as text`;
  }
  if (typeof attempt !== 'number' || !Number.isInteger(attempt) || attempt < 1) {
    return `${RESULT_FILE}: attempt: expected a number from 1`;
  }
  if (outcome !== 'pass' && outcome !== 'fail' && outcome !== 'timeout' && outcome !== 'remote') {
    return `${RESULT_FILE}: outcome: expected pass, fail, timeout or remote`;
  }
  if (reason !== null && !isReason(reason)) {
    return `${RESULT_FILE}: reason: expected text of at most ${REASON_CHARACTERS_MAX} characters, or null`;
  }
  return { effectId, attempt, outcome, reason };
}

function isReason(value: unknown): value is string {
  return (
    typeof value === 'string' &&
    value.length > 0 &&
    value.length <= REASON_CHARACTERS_MAX &&
    value.isWellFormed() &&
    !value.includes('\0')
  );
}
