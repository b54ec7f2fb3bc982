import { SCHEMA } from '@sluice/db';
import { sql } from 'kysely';

/** The next effect id, inside SQL. Named in full: a caller's search path is not ours. */
export const nextEffectId = sql<bigint>`nextval(${sql.lit(`${SCHEMA}.effect_id_seq`)})`;

/** The next claim number, inside SQL; taken only under the repo's turn lock. */
export const nextClaimNumber = sql<bigint>`nextval(${sql.lit(`${SCHEMA}.effect_claim_number_seq`)})`;

/** The highest effect id drawn so far, or 0. */
export const lastEffectId = sql<bigint>`coalesce(pg_sequence_last_value(${sql.lit(`${SCHEMA}.effect_id_seq`)}::regclass), 0)`;
