import { sql, type Kysely } from 'kysely';

/** The effect queue: waiting effects, open claims, dispatchers, finished effects, their output. */
export async function up(db: Kysely<unknown>): Promise<void> {
  for (const statement of STATEMENTS) await sql.raw(statement).execute(db);
}

export async function down(db: Kysely<unknown>): Promise<void> {
  await sql.raw('drop view effect').execute(db);
  await sql
    .raw(
      'drop table effect_log, effect_history, effect_dedup, effect_claim, effect_queue, dispatcher, queue_limit',
    )
    .execute(db);
  await sql.raw('drop sequence effect_id_seq, effect_claim_number_seq').execute(db);
}

/**
 * Rows of these tables live for seconds, so their size is what vacuum has not yet returned. The default waits for
 * 20 % of a table: nothing when it is empty and hours when it is full. A fixed number of dead rows, vacuumed without
 * pauses, keeps the tables a few megabytes at any rate.
 */
const HOT = `with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 50000,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 20000, autovacuum_vacuum_cost_delay = 0)`;

const STATEMENTS = [
  `create sequence effect_id_seq`,
  `create sequence effect_claim_number_seq cache 1`,

  `create table effect_queue (
    effect_id         bigint primary key default nextval('effect_id_seq'),
    repo_id           text collate "C" not null,
    name              text not null default ''
                      constraint effect_name_is_short check (octet_length(name) <= 300),
    payload           text not null,
    priority          smallint not null default 0,
    attempts          integer not null default 0
                      constraint attempts_are_not_negative check (attempts >= 0),
    max_attempts      integer not null default 3
                      constraint max_attempts_is_positive check (max_attempts between 1 and 1000),
    run_at            timestamptz,
    dedup_key         text collate "C",
    concurrency_group text collate "C",
    push_id           text collate "C",
    last_error        text,
    enqueued_at       timestamptz not null default now(),
    constraint unfinished_effect_has_attempts_left check (attempts < max_attempts)
  ) ${HOT}`,
  `create index effect_queue_claim_idx on effect_queue (repo_id, priority desc, effect_id) where run_at is null`,
  `create index effect_queue_due_idx on effect_queue (run_at, effect_id) where run_at is not null`,
  `create index effect_queue_repo_due_idx on effect_queue (repo_id, run_at, effect_id) where run_at is not null`,
  `create index effect_queue_group_idx on effect_queue (repo_id, concurrency_group, effect_id) where concurrency_group is not null`,
  `comment on table effect_queue is 'An unfinished effect. Scheduled while run_at is set, claimed while effect_claim names it, else enqueued.'`,
  `comment on column effect_queue.effect_id is 'Rises with age; never reused.'`,
  `comment on column effect_queue.repo_id is 'Tenant; need not have a repo row.'`,
  `comment on column effect_queue.name is 'What people call it, such as the effect definition''s name.'`,
  `comment on column effect_queue.payload is 'Opaque text: the work order.'`,
  `comment on column effect_queue.priority is 'Higher runs first, within its repo only.'`,
  `comment on column effect_queue.attempts is 'Attempts spent so far; an open claim runs attempt attempts + 1.'`,
  `comment on column effect_queue.max_attempts is 'Attempts allowed; after the last one the effect is dead.'`,
  `comment on column effect_queue.run_at is 'Not before this instant; NULL: it waits for its turn now.'`,
  `comment on column effect_queue.dedup_key is 'Key under which effect_dedup names it.'`,
  `comment on column effect_queue.concurrency_group is 'Group within the repo in which a newer effect may supersede waiting ones.'`,
  `comment on column effect_queue.push_id is 'The push that caused it; NULL: none did.'`,
  `comment on column effect_queue.last_error is 'Why the previous attempt did not finish.'`,
  `comment on column effect_queue.enqueued_at is 'When it was accepted, by the database clock.'`,

  `create table effect_claim (
    repo_id      text collate "C" not null,
    claim_number bigint not null default nextval('effect_claim_number_seq'),
    effect_id    bigint not null
                 constraint effect_has_one_claim unique,
    attempt      integer not null
                 constraint attempt_is_positive check (attempt > 0),
    claimant     text not null
                 constraint claimant_is_named check (claimant <> ''),
    claimed_at   timestamptz not null default now(),
    primary key (repo_id, claim_number)
  ) ${HOT}`,
  // No foreign key to effect_queue: its check locks, and so rewrites, the effect's row with each claim, and its trigger
  // runs once more with each completion. Measured: 30 % of both. The statements of queue-core remove the two together.
  // Nor an index by claimant or by claim number alone: claims are found by their effect or their repo, those of a lost
  // dispatcher are looked for rarely and among few. Each index costs a claim a tenth.
  `comment on table effect_claim is 'An open claim: who runs which effect. Its own table, so that a claim does not rewrite the payload.'`,
  `comment on column effect_claim.repo_id is 'Repo of the effect; a repo''s claimed effects are counted here.'`,
  `comment on column effect_claim.claim_number is 'Never reused; taken under the repo''s turn lock, so that within a repo it rises in commit order.'`,
  `comment on column effect_claim.effect_id is 'The effect.'`,
  `comment on column effect_claim.attempt is 'Which attempt this is, from 1. The fence, together with claim number and claimant.'`,
  `comment on column effect_claim.claimant is 'A dispatcher''s id, or the name a caller of the repo-scoped claim gave.'`,
  `comment on column effect_claim.claimed_at is 'When, by the database clock.'`,

  `create table effect_history (
    effect_id         bigint not null,
    repo_id           text collate "C" not null,
    name              text not null,
    payload           text not null,
    state             text not null
                      constraint state_is_finished check (state in ('done', 'dead', 'cancelled', 'superseded', 'skipped')),
    outcome           text
                      constraint outcome_is_known check (outcome in ('pass', 'fail', 'timeout', 'remote')),
    reason            text,
    priority          smallint not null,
    attempts          integer not null,
    max_attempts      integer not null,
    dedup_key         text collate "C",
    concurrency_group text collate "C",
    push_id           text collate "C",
    claim_number      bigint,
    claimant          text,
    result_ref        text collate "C",
    enqueued_at       timestamptz not null,
    claimed_at        timestamptz,
    finished_at       timestamptz not null default now(),
    primary key (effect_id, finished_at),
    constraint only_done_has_an_outcome check ((state = 'done') = (outcome is not null)),
    constraint unfinished_work_has_a_reason check (state = 'done' or reason is not null)
  ) partition by range (finished_at)`,
  `create table effect_history_default partition of effect_history default`,
  `create index effect_history_repo_idx on effect_history (repo_id, finished_at desc)`,
  `create index effect_history_undone_idx on effect_history (finished_at desc) where state <> 'done'`,
  `create index effect_history_repo_undone_idx on effect_history (repo_id, finished_at desc) where state <> 'done'`,
  `comment on table effect_history is 'A finished effect. Partitioned by day; retention drops partitions.'`,
  `comment on column effect_history.effect_id is 'Same id as while it waited.'`,
  `comment on column effect_history.repo_id is 'Tenant.'`,
  `comment on column effect_history.name is 'What people call it.'`,
  `comment on column effect_history.payload is 'Opaque text: the work order.'`,
  `comment on column effect_history.state is 'done, dead, cancelled, superseded or skipped; never changes.'`,
  `comment on column effect_history.outcome is 'Of done: pass, fail, timeout, or remote (settled where the executor cannot see it).'`,
  `comment on column effect_history.reason is 'Why it is not done, or a remark on how it was.'`,
  `comment on column effect_history.priority is 'As enqueued.'`,
  `comment on column effect_history.attempts is 'Attempts spent, the last one included.'`,
  `comment on column effect_history.max_attempts is 'Attempts that were allowed.'`,
  `comment on column effect_history.dedup_key is 'As enqueued.'`,
  `comment on column effect_history.concurrency_group is 'As enqueued.'`,
  `comment on column effect_history.push_id is 'The push that caused it.'`,
  `comment on column effect_history.claim_number is 'Last claim; NULL: never claimed.'`,
  `comment on column effect_history.claimant is 'Last claimant; NULL: never claimed.'`,
  `comment on column effect_history.result_ref is 'Ref that holds its result; NULL: none.'`,
  `comment on column effect_history.enqueued_at is 'When it was accepted.'`,
  `comment on column effect_history.claimed_at is 'When the last claim was made.'`,
  `comment on column effect_history.finished_at is 'When it finished, by the database clock.'`,

  `create table effect_dedup (
    repo_id     text collate "C" not null,
    dedup_key   text collate "C" not null
                constraint dedup_key_is_short check (octet_length(dedup_key) between 1 and 200),
    effect_id   bigint not null,
    is_retained boolean not null,
    done_at     timestamptz,
    primary key (repo_id, dedup_key),
    constraint only_a_retained_key_outlives_its_effect check (done_at is null or is_retained)
  ) ${HOT}`,
  `create index effect_dedup_effect_idx on effect_dedup (effect_id)`,
  `create index effect_dedup_done_idx on effect_dedup (done_at) where done_at is not null`,
  `comment on table effect_dedup is 'A dedup key in force: enqueueing it again returns the effect it names.'`,
  `comment on column effect_dedup.repo_id is 'Tenant.'`,
  `comment on column effect_dedup.dedup_key is 'Caller''s key, at most 200 bytes.'`,
  `comment on column effect_dedup.effect_id is 'The effect that holds the key.'`,
  `comment on column effect_dedup.is_retained is 'Whether the key stays in force after its effect is done.'`,
  `comment on column effect_dedup.done_at is 'When its effect was done; retention removes it some time later.'`,

  `create table dispatcher (
    dispatcher_id uuid primary key default gen_random_uuid(),
    host          text not null,
    pid           integer not null,
    slots         integer not null
                  constraint slots_are_positive check (slots > 0),
    lease_ms      integer not null
                  constraint lease_is_positive check (lease_ms > 0),
    is_sleeping   boolean not null default false,
    started_at    timestamptz not null default now(),
    heartbeat_at  timestamptz not null default now()
  ) ${HOT}`,
  `comment on table dispatcher is 'A dispatcher process that is believed alive. Declared dead: its row is gone.'`,
  `comment on column dispatcher.dispatcher_id is 'The claimant of its claims. A process that was declared dead comes back under a new one.'`,
  `comment on column dispatcher.host is 'Where it runs.'`,
  `comment on column dispatcher.pid is 'Its process id on that host.'`,
  `comment on column dispatcher.slots is 'Most effects it runs at once.'`,
  `comment on column dispatcher.lease_ms is 'Dead when its heartbeat is older than this, in milliseconds by the database clock.'`,
  `comment on column dispatcher.is_sleeping is 'It wants to hear of each new effect: an enqueue sends a notification only if a dispatcher does. False while effects arrive fast.'`,
  `comment on column dispatcher.started_at is 'When it registered.'`,
  `comment on column dispatcher.heartbeat_at is 'Last heartbeat, by the database clock.'`,

  `create table queue_limit (
    is_singleton boolean primary key default true
                 constraint there_is_one_row check (is_singleton),
    global_cap   integer
                 constraint global_cap_is_positive check (global_cap > 0)
  )`,
  `insert into queue_limit default values`,
  `comment on table queue_limit is 'Limits of the whole queue: one row.'`,
  `comment on column queue_limit.is_singleton is 'Always true.'`,
  `comment on column queue_limit.global_cap is 'Most effects of all repos that may be claimed at once; NULL: no limit.'`,

  `create table effect_log (
    effect_id    bigint not null,
    claim_number bigint not null,
    seq          integer not null,
    attempt      integer not null,
    bytes        bytea not null,
    logged_at    timestamptz not null default now(),
    primary key (effect_id, claim_number, seq, logged_at)
  ) partition by range (logged_at)`,
  `create table effect_log_default partition of effect_log default`,
  `comment on table effect_log is 'A chunk of an effect''s output. Partitioned by day; retention drops partitions.'`,
  `comment on column effect_log.effect_id is 'The effect.'`,
  `comment on column effect_log.claim_number is 'The claim that wrote it: one run of the effect.'`,
  `comment on column effect_log.seq is 'Position within the run, from 1; a gap is a lost chunk.'`,
  `comment on column effect_log.attempt is 'Attempt number of that claim.'`,
  `comment on column effect_log.bytes is 'Output as it came, standard output and error together.'`,
  `comment on column effect_log.logged_at is 'When it was stored.'`,

  `create view effect as
    select q.effect_id, q.repo_id, q.name, q.payload,
           case when c.effect_id is not null then 'claimed' when q.run_at is not null then 'scheduled' else 'enqueued' end as state,
           null::text as outcome, q.last_error as reason, q.priority,
           coalesce(c.attempt, q.attempts) as attempts, q.max_attempts, q.run_at, q.dedup_key, q.concurrency_group, q.push_id,
           c.claim_number, c.claimant, null::text as result_ref, q.enqueued_at, c.claimed_at, null::timestamptz as finished_at
      from effect_queue q left join effect_claim c on c.effect_id = q.effect_id
    union all
    select h.effect_id, h.repo_id, h.name, h.payload, h.state, h.outcome, h.reason, h.priority, h.attempts, h.max_attempts,
           null, h.dedup_key, h.concurrency_group, h.push_id, h.claim_number, h.claimant, h.result_ref, h.enqueued_at,
           h.claimed_at, h.finished_at
      from effect_history h`,
  `comment on view effect is 'Every effect, unfinished and finished, for readers.'`,
];
