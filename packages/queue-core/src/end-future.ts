import { table, type DB } from '@sluice/db';
import { sql, type Kysely } from 'kysely';

const CLAIMS_MAX = 1_000;

/**
 * After the server's clock was set back, heartbeats and claims from before it lie in the future, where they would not
 * grow old until the clock is there again. They count as of now: who is alive beats again, and the rest is stale in its
 * time. What somebody is changing at this moment is left for the next call.
 */
export async function endFuture(db: Kysely<DB>): Promise<void> {
  await sql`
    update ${table('dispatcher')} set heartbeat_at = clock_timestamp()
     where dispatcher_id = any(array(
       select dispatcher_id from ${table('dispatcher')} where heartbeat_at > clock_timestamp() for update skip locked
     ))`.execute(db);
  await sql`
    update ${table('effect_claim')} set claimed_at = clock_timestamp()
     where effect_id = any(array(
       select effect_id from ${table('effect_claim')} where claimed_at > clock_timestamp()
        limit ${CLAIMS_MAX}::int for update skip locked
     ))`.execute(db);
}
