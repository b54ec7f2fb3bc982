import { assertStorable } from '@sluice/db';
import { assertRepoId, assertText, assertWhole, invalid } from './assert-argument.ts';

/** Longest payload, in bytes of UTF-8. Put what is larger elsewhere and enqueue where to find it. */
const PAYLOAD_BYTES_MAX = 4 * 1024 * 1024;
const DELAY_MS_MAX = 10 * 365 * 24 * 3600 * 1000;
const RUN_AT_MAX = Date.UTC(9999, 11, 31);

/** An effect to be enqueued. */
export interface NewEffect {
  /** Tenant; it need not have a row in `repo`. */
  repoId: string;
  /** Opaque to the queue, at most 4 MiB. */
  payload: string;
  /** What people call it, at most 300 bytes. */
  name?: string;
  /** Higher runs first within its repo, -32768 to 32767; the default is 0. */
  priority?: number;
  /** Wait at least this long, by the database clock. */
  delayMs?: number;
  /** Not before this instant. At most one of `delayMs` and `runAt`. */
  runAt?: Date;
  /** Attempts allowed, 1 to 1000; the default is 3. */
  maxAttempts?: number;
  /** While an unfinished effect of the repo holds this key, enqueueing returns that effect; at most 200 bytes. */
  dedupKey?: string;
  /** The key stays in force after its effect is done, until retention removes it. */
  retainDedupKey?: boolean;
  /** Group within the repo, at most 200 bytes. */
  concurrencyGroup?: string;
  /** Waiting effects of the same group give way to this one; those that run are left alone. */
  supersede?: boolean;
  /** The push that caused it. */
  pushId?: string;
}

/** Whether it waits for its turn as soon as it is enqueued; of one with a time that has passed, only the database knows. */
export function isForNow({ runAt, delayMs = 0 }: NewEffect): boolean {
  return runAt === undefined && delayMs === 0;
}

/** Refuses an effect that the queue could not keep as it is, naming the field. */
export function checkNewEffect(effect: NewEffect, field: string): void {
  const { payload, name, delayMs, runAt } = effect;
  assertRepoId(`${field}repoId`, effect.repoId);
  if (typeof payload !== 'string' || Buffer.byteLength(payload) > PAYLOAD_BYTES_MAX) {
    throw invalid(
      `${field}payload`,
      `text of at most ${PAYLOAD_BYTES_MAX} bytes`,
      payload,
      'Store large data elsewhere.',
    );
  }
  assertStorable(`${field}payload`, payload);
  if (name !== undefined && name !== '') assertText(`${field}name`, name, 300);
  if (effect.priority !== undefined) assertWhole(`${field}priority`, effect.priority, -32768, 32767);
  if (effect.maxAttempts !== undefined) assertWhole(`${field}maxAttempts`, effect.maxAttempts, 1, 1000);
  if (delayMs !== undefined) assertWhole(`${field}delayMs`, delayMs, 0, DELAY_MS_MAX);
  if (runAt !== undefined) checkRunAt(`${field}runAt`, runAt, delayMs);
  if (effect.dedupKey !== undefined) assertText(`${field}dedupKey`, effect.dedupKey, 200);
  if (effect.concurrencyGroup !== undefined)
    assertText(`${field}concurrencyGroup`, effect.concurrencyGroup, 200);
  if (effect.pushId !== undefined) assertText(`${field}pushId`, effect.pushId, 200);
  if (effect.retainDedupKey === true && effect.dedupKey === undefined) {
    throw invalid(
      `${field}retainDedupKey`,
      'a dedupKey beside it',
      'none',
      'Give the key, or drop the option.',
    );
  }
  if (effect.supersede === true && effect.concurrencyGroup === undefined) {
    throw invalid(
      `${field}supersede`,
      'a concurrencyGroup beside it',
      'none',
      'Give the group, or drop the option.',
    );
  }
}

function checkRunAt(field: string, runAt: unknown, delayMs: number | undefined): void {
  const isUsable = runAt instanceof Date && runAt.getTime() >= 0 && runAt.getTime() <= RUN_AT_MAX;
  if (!isUsable)
    throw invalid(field, 'a Date between the years 1970 and 9999', runAt, 'Correct it or leave it out.');
  if (delayMs !== undefined) throw invalid(field, 'one of delayMs and runAt', 'both', 'Leave one out.');
}
