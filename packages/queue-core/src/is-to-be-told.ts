import { table } from '@sluice/db';
import { sql, type RawBuilder } from 'kysely';

/** Whether an enqueue has to notify: a dispatcher sleeps that is none of `told`, which hear of it otherwise. */
export function isToBeTold(told: RawBuilder<unknown>): RawBuilder<boolean> {
  return sql`exists (select from ${table('dispatcher')} d
                      where d.is_sleeping and d.dispatcher_id <> all(${told}::uuid[]))`;
}
