-- Generated from the migrations by npm run codegen: the schema in one piece, to be read, not run.

create sequence effect_claim_number_seq;

create sequence effect_id_seq;

-- A password for git over HTTP: whose it is, and what it opens.
create table access_token (
  -- Names it for people; says nothing about the token.
  token_id bigint not null generated always as identity,
  -- SHA-256 of the token, which is 256 random bits and stored nowhere.
  token_hash bytea not null,
  -- Whose it is, such as alice or build-bot. Several tokens may share one.
  name text collate "C" not null,
  -- A repository, or a prefix with /*, or * for all.
  repo_pattern text collate "C" not null,
  -- What it is for: read, write (and read), admin (and write), worker.
  scopes text[] not null,
  -- When it was made, by the database clock.
  created_at timestamp with time zone not null default now(),
  -- From when on it opens nothing; NULL: never.
  expires_at timestamp with time zone,
  -- Since when it opens nothing; NULL: it was not revoked.
  revoked_at timestamp with time zone,
  -- A first push with it is refused once its owner has made so many repositories, with whatever token; NULL: no limit.
  repos_max integer,
  constraint access_token_pkey PRIMARY KEY (token_id),
  constraint token_hash_is_unique UNIQUE (token_hash),
  constraint repo_pattern_is_a_repo_or_ends_with_a_star CHECK (repo_pattern ~ '^([A-Za-z0-9._/@:+-]{1,200}|[*]|[A-Za-z0-9._/@:+-]{1,198}/[*])$'::text),
  constraint repos_max_is_not_negative CHECK (repos_max >= 0),
  constraint scopes_are_known CHECK (scopes <@ ARRAY['read'::text, 'write'::text, 'admin'::text, 'worker'::text]),
  constraint scopes_are_not_empty CHECK (cardinality(scopes) >= 1 AND cardinality(scopes) <= 4),
  constraint token_hash_is_of_sha256 CHECK (octet_length(token_hash) = 32),
  constraint token_name_is_one_word CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}$'::text)
);

-- A dispatcher process that is believed alive. Declared dead: its row is gone.
create table dispatcher (
  -- The claimant of its claims. A process that was declared dead comes back under a new one.
  dispatcher_id uuid not null default gen_random_uuid(),
  -- Where it runs.
  host text not null,
  -- Its process id on that host.
  pid integer not null,
  -- Most effects it runs at once.
  slots integer not null,
  -- Dead when its heartbeat is older than this, in milliseconds by the database clock.
  lease_ms integer not null,
  -- It wants to hear of each new effect: an enqueue sends a notification only if a dispatcher does. False while effects arrive fast.
  is_sleeping boolean not null default false,
  -- When it registered.
  started_at timestamp with time zone not null default now(),
  -- Last heartbeat, by the database clock.
  heartbeat_at timestamp with time zone not null default now(),
  constraint dispatcher_pkey PRIMARY KEY (dispatcher_id),
  constraint lease_is_positive CHECK (lease_ms > 0),
  constraint slots_are_positive CHECK (slots > 0)
) with (
  fillfactor=90,
  autovacuum_vacuum_scale_factor=0,
  autovacuum_vacuum_insert_scale_factor=0,
  autovacuum_vacuum_insert_threshold=50000,
  autovacuum_analyze_scale_factor=0,
  autovacuum_analyze_threshold=20000,
  autovacuum_vacuum_cost_delay=0,
  autovacuum_vacuum_threshold=100
);

-- An open claim: who runs which effect. Its own table, so that a claim does not rewrite the payload.
create table effect_claim (
  -- Repo of the effect; a repo's claimed effects are counted here.
  repo_id text collate "C" not null,
  -- Never reused; taken under the repo's turn lock, so that within a repo it rises in commit order.
  claim_number bigint not null default nextval('effect_claim_number_seq'::regclass),
  -- The effect.
  effect_id bigint not null,
  -- Which attempt this is, from 1. The fence, together with claim number and claimant.
  attempt integer not null,
  -- A dispatcher's id, or the name a caller of the repo-scoped claim gave.
  claimant text not null,
  -- When, by the database clock.
  claimed_at timestamp with time zone not null default now(),
  constraint effect_claim_pkey PRIMARY KEY (repo_id, claim_number),
  constraint effect_has_one_claim UNIQUE (effect_id),
  constraint attempt_is_positive CHECK (attempt > 0),
  constraint claimant_is_named CHECK (claimant <> ''::text)
) with (
  fillfactor=90,
  autovacuum_vacuum_scale_factor=0,
  autovacuum_vacuum_insert_scale_factor=0,
  autovacuum_vacuum_insert_threshold=50000,
  autovacuum_analyze_scale_factor=0,
  autovacuum_analyze_threshold=20000,
  autovacuum_vacuum_cost_delay=0,
  autovacuum_vacuum_threshold=100
);

-- A dedup key in force: enqueueing it again returns the effect it names.
create table effect_dedup (
  -- Tenant.
  repo_id text collate "C" not null,
  -- Caller's key, at most 200 bytes.
  dedup_key text collate "C" not null,
  -- The effect that holds the key.
  effect_id bigint not null,
  -- Whether the key stays in force after its effect is done.
  is_retained boolean not null,
  -- When its effect was done; retention removes it some time later.
  done_at timestamp with time zone,
  constraint effect_dedup_pkey PRIMARY KEY (repo_id, dedup_key),
  constraint dedup_key_is_short CHECK (octet_length(dedup_key) >= 1 AND octet_length(dedup_key) <= 200),
  constraint only_a_retained_key_outlives_its_effect CHECK (done_at IS NULL OR is_retained)
) with (
  fillfactor=90,
  autovacuum_vacuum_scale_factor=0,
  autovacuum_vacuum_insert_scale_factor=0,
  autovacuum_vacuum_insert_threshold=50000,
  autovacuum_analyze_scale_factor=0,
  autovacuum_analyze_threshold=20000,
  autovacuum_vacuum_cost_delay=0,
  autovacuum_vacuum_threshold=100
);
create index effect_dedup_done_idx on effect_dedup (done_at) where (done_at IS NOT NULL);
create index effect_dedup_effect_idx on effect_dedup (effect_id);

-- A finished effect. Partitioned by day; retention drops partitions.
create table effect_history (
  -- Same id as while it waited.
  effect_id bigint not null,
  -- Tenant.
  repo_id text collate "C" not null,
  -- What people call it.
  name text not null,
  -- Opaque text: the work order.
  payload text not null,
  -- done, dead, cancelled, superseded or skipped; never changes.
  state text not null,
  -- Of done: pass, fail, timeout, or remote (settled where the executor cannot see it).
  outcome text,
  -- Why it is not done, or a remark on how it was.
  reason text,
  -- As enqueued.
  priority smallint not null,
  -- Attempts spent, the last one included.
  attempts integer not null,
  -- Attempts that were allowed.
  max_attempts integer not null,
  -- As enqueued.
  dedup_key text collate "C",
  -- As enqueued.
  concurrency_group text collate "C",
  -- The push that caused it.
  push_id text collate "C",
  -- Last claim; NULL: never claimed.
  claim_number bigint,
  -- Last claimant; NULL: never claimed.
  claimant text,
  -- Ref that holds its result; NULL: none.
  result_ref text collate "C",
  -- When it was accepted.
  enqueued_at timestamp with time zone not null,
  -- When the last claim was made.
  claimed_at timestamp with time zone,
  -- When it finished, by the database clock.
  finished_at timestamp with time zone not null default now(),
  constraint effect_history_pkey PRIMARY KEY (effect_id, finished_at),
  constraint only_done_has_an_outcome CHECK ((state = 'done'::text) = (outcome IS NOT NULL)),
  constraint outcome_is_known CHECK (outcome = ANY (ARRAY['pass'::text, 'fail'::text, 'timeout'::text, 'remote'::text])),
  constraint state_is_finished CHECK (state = ANY (ARRAY['done'::text, 'dead'::text, 'cancelled'::text, 'superseded'::text, 'skipped'::text])),
  constraint unfinished_work_has_a_reason CHECK (state = 'done'::text OR reason IS NOT NULL)
) partition by range (finished_at);
create index effect_history_repo_idx on effect_history (repo_id, finished_at DESC);
create index effect_history_repo_undone_idx on effect_history (repo_id, finished_at DESC) where (state <> 'done'::text);
create index effect_history_undone_idx on effect_history (finished_at DESC) where (state <> 'done'::text);

create table effect_history_default partition of effect_history default;

-- A chunk of an effect's output. Partitioned by day; retention drops partitions.
create table effect_log (
  -- The effect.
  effect_id bigint not null,
  -- The claim that wrote it: one run of the effect.
  claim_number bigint not null,
  -- Position within the run, from 1; a gap is a lost chunk.
  seq integer not null,
  -- Attempt number of that claim.
  attempt integer not null,
  -- Output as it came, standard output and error together.
  bytes bytea not null,
  -- When it was stored.
  logged_at timestamp with time zone not null default now(),
  constraint effect_log_pkey PRIMARY KEY (effect_id, claim_number, seq, logged_at)
) partition by range (logged_at);

create table effect_log_default partition of effect_log default;

-- An unfinished effect. Scheduled while run_at is set, claimed while effect_claim names it, else enqueued.
create table effect_queue (
  -- Rises with age; never reused.
  effect_id bigint not null default nextval('effect_id_seq'::regclass),
  -- Tenant; need not have a repo row.
  repo_id text collate "C" not null,
  -- What people call it, such as the effect definition's name.
  name text not null default ''::text,
  -- Opaque text: the work order.
  payload text not null,
  -- Higher runs first, within its repo only.
  priority smallint not null default 0,
  -- Attempts spent so far; an open claim runs attempt attempts + 1.
  attempts integer not null default 0,
  -- Attempts allowed; after the last one the effect is dead.
  max_attempts integer not null default 3,
  -- Not before this instant; NULL: it waits for its turn now.
  run_at timestamp with time zone,
  -- Key under which effect_dedup names it.
  dedup_key text collate "C",
  -- Group within the repo in which a newer effect may supersede waiting ones.
  concurrency_group text collate "C",
  -- The push that caused it; NULL: none did.
  push_id text collate "C",
  -- Why the previous attempt did not finish.
  last_error text,
  -- When it was accepted, by the database clock.
  enqueued_at timestamp with time zone not null default now(),
  constraint effect_queue_pkey PRIMARY KEY (effect_id),
  constraint attempts_are_not_negative CHECK (attempts >= 0),
  constraint effect_name_is_short CHECK (octet_length(name) <= 300),
  constraint max_attempts_is_positive CHECK (max_attempts >= 1 AND max_attempts <= 1000),
  constraint unfinished_effect_has_attempts_left CHECK (attempts < max_attempts)
) with (
  fillfactor=90,
  autovacuum_vacuum_scale_factor=0,
  autovacuum_vacuum_insert_scale_factor=0,
  autovacuum_vacuum_insert_threshold=50000,
  autovacuum_analyze_scale_factor=0,
  autovacuum_analyze_threshold=20000,
  autovacuum_vacuum_cost_delay=0,
  autovacuum_vacuum_threshold=100
);
create index effect_queue_claim_idx on effect_queue (repo_id, priority DESC, effect_id) where (run_at IS NULL);
create index effect_queue_due_idx on effect_queue (run_at, effect_id) where (run_at IS NOT NULL);
create index effect_queue_group_idx on effect_queue (repo_id, concurrency_group, effect_id) where (concurrency_group IS NOT NULL);
create index effect_queue_repo_due_idx on effect_queue (repo_id, run_at, effect_id) where (run_at IS NOT NULL);

-- The signed record of one accepted push; its OID is the push id.
create table op_record (
  -- OID of the op record, a git commit object.
  push_id text collate "C" not null,
  -- Repository.
  repo_id text collate "C" not null,
  -- Position in the repository's log, from 1, without gaps.
  seq bigint not null,
  -- Push id of the previous op record; NULL for the first.
  parent text collate "C",
  -- Blob OID of the push certificate; NULL when the push was not signed.
  cert_oid text collate "C",
  -- Who pushed, as far as it was proven.
  signer text,
  -- Armoured SSH signature of the server over the commit object without its gpgsig header.
  signature text,
  -- The commit object's bytes, signature included; hashing them gives the push id.
  body bytea,
  -- When the push was committed, by the database clock.
  created_at timestamp with time zone not null default now(),
  constraint op_record_pkey PRIMARY KEY (push_id),
  constraint op_record_cert_is_used_once UNIQUE (repo_id, cert_oid),
  constraint op_record_seq_is_unique UNIQUE (repo_id, seq),
  constraint op_record_repo_id_fkey FOREIGN KEY (repo_id) REFERENCES repo(repo_id) ON DELETE CASCADE,
  constraint cert_oid_is_an_oid CHECK (cert_oid ~ '^([0-9a-f]{40}|[0-9a-f]{64})$'::text),
  constraint op_parent_is_an_oid CHECK (parent ~ '^([0-9a-f]{40}|[0-9a-f]{64})$'::text),
  constraint op_record_body_is_signed CHECK ((body IS NULL) = (signature IS NULL)),
  constraint push_id_is_an_oid CHECK (push_id ~ '^([0-9a-f]{40}|[0-9a-f]{64})$'::text)
);

-- A push certificate that was used. The signed text counts once, whatever its signature looks like: some kinds of signature have several spellings.
create table push_certificate (
  -- Repository.
  repo_id text collate "C" not null,
  -- SHA-256 of the text that was signed; the nonce in it is of this repository and this server.
  signed_hash bytea not null,
  -- The push it was used for.
  push_id text collate "C" not null,
  constraint push_certificate_pkey PRIMARY KEY (repo_id, signed_hash),
  constraint push_certificate_push_id_fkey FOREIGN KEY (push_id) REFERENCES op_record(push_id) ON DELETE CASCADE,
  constraint push_certificate_repo_id_fkey FOREIGN KEY (repo_id) REFERENCES repo(repo_id) ON DELETE CASCADE,
  constraint signed_hash_is_of_sha256 CHECK (octet_length(signed_hash) = 32)
);
create index push_certificate_of_push_idx on push_certificate (push_id);

-- Limits of the whole queue: one row.
create table queue_limit (
  -- Always true.
  is_singleton boolean not null default true,
  -- Most effects of all repos that may be claimed at once; NULL: no limit.
  global_cap integer,
  constraint queue_limit_pkey PRIMARY KEY (is_singleton),
  constraint global_cap_is_positive CHECK (global_cap > 0),
  constraint there_is_one_row CHECK (is_singleton)
);

-- A ref of a repository. This table is the truth; packed-refs on disk is a cache of it.
create table ref (
  -- Repository.
  repo_id text collate "C" not null,
  -- Full name, such as refs/heads/main.
  name text collate "C" not null,
  -- What it points at, in lower-case hex.
  oid text collate "C" not null,
  constraint ref_pkey PRIMARY KEY (repo_id, name),
  constraint ref_repo_id_fkey FOREIGN KEY (repo_id) REFERENCES repo(repo_id) ON DELETE CASCADE,
  constraint ref_name_is_below_refs CHECK (name ~~ 'refs/%'::text AND octet_length(name) <= 1024),
  constraint ref_oid_is_an_oid CHECK (oid ~ '^([0-9a-f]{40}|[0-9a-f]{64})$'::text)
);

-- One applied ref edit; append-only.
create table reflog (
  -- Repository.
  repo_id text collate "C" not null,
  -- Rises with each edit.
  reflog_id bigint not null generated always as identity,
  -- The push that made the edit.
  push_id text collate "C" not null,
  -- Full name of the ref.
  name text collate "C" not null,
  -- Value before; NULL: the ref did not exist.
  old_oid text collate "C",
  -- Value after; NULL: the ref was deleted.
  new_oid text collate "C",
  -- When the push was committed.
  created_at timestamp with time zone not null default now(),
  constraint reflog_pkey PRIMARY KEY (repo_id, reflog_id),
  constraint reflog_push_id_fkey FOREIGN KEY (push_id) REFERENCES op_record(push_id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  constraint reflog_repo_id_fkey FOREIGN KEY (repo_id) REFERENCES repo(repo_id) ON DELETE CASCADE,
  constraint reflog_edit_changes_something CHECK (old_oid IS DISTINCT FROM new_oid)
);
create index reflog_of_push_idx on reflog (push_id);
create index reflog_of_ref_idx on reflog (repo_id, name, reflog_id);

-- A repository: the tenant of the queue and the owner of refs.
create table repo (
  -- Text key such as acme/api.
  repo_id text collate "C" not null,
  -- Hash of its objects: sha1 or sha256.
  object_format text not null default 'sha1'::text,
  -- The branch a clone checks out: the first branch ever pushed.
  head_ref text collate "C" not null default 'refs/heads/main'::text,
  -- Most effects of this repo that may be claimed at once; NULL: the dispatcher's default.
  cap integer,
  -- Share of the service relative to other repos that have work, 1 to 1000.
  weight integer not null default 1,
  -- Since when nothing of this repo is claimed; NULL: it is not paused.
  paused_at timestamp with time zone,
  -- Most effects that may wait; a match beyond it is recorded as skipped. NULL: no limit.
  max_queued integer,
  -- Rises by one with each accepted push; an on-disk cache of refs compares it.
  refs_version bigint not null default 0,
  -- Sequence number of the newest op record; 0: none yet.
  op_seq bigint not null default 0,
  -- Push id of the newest op record, parent of the next one.
  op_tip text collate "C",
  -- When the repository was first pushed to or set up.
  created_at timestamp with time zone not null default now(),
  -- Whose first push made it, by the name of a token; NULL: nobody in particular, or before this was recorded.
  made_by text collate "C",
  constraint repo_pkey PRIMARY KEY (repo_id),
  constraint cap_is_positive CHECK (cap >= 1 AND cap <= 100000),
  constraint max_queued_is_not_negative CHECK (max_queued >= 0),
  constraint object_format_is_known CHECK (object_format = ANY (ARRAY['sha1'::text, 'sha256'::text])),
  constraint op_tip_is_an_oid CHECK (op_tip ~ '^([0-9a-f]{40}|[0-9a-f]{64})$'::text),
  constraint repo_id_is_a_short_path CHECK (repo_id ~ '^[A-Za-z0-9._/@:+-]{1,200}$'::text),
  constraint weight_is_within_1_and_1000 CHECK (weight >= 1 AND weight <= 1000)
);
create index repo_of_maker_idx on repo (made_by) where (made_by IS NOT NULL);

-- The public part of a key that a pusher signs op records with.
create table server_key (
  -- What ssh-keygen -l prints.
  fingerprint text collate "C" not null,
  -- As in an allowed-signers file, without a comment.
  public_key text not null,
  -- When a pusher first started with it.
  registered_at timestamp with time zone not null default now(),
  -- Since when it signs no more; what it signed before stays good. NULL: it may sign.
  retired_at timestamp with time zone,
  constraint server_key_pkey PRIMARY KEY (fingerprint),
  constraint server_key_is_registered_once UNIQUE (public_key),
  constraint fingerprint_is_of_sha256 CHECK (fingerprint ~ '^SHA256:[A-Za-z0-9+/]{43}$'::text),
  constraint public_key_is_one_of_ssh CHECK (public_key ~ '^ssh-ed25519 [A-Za-z0-9+/=]+$'::text)
);

-- A small git object (op record, certificate) of a push, readable from any machine.
create table small_object (
  -- Repository.
  repo_id text collate "C" not null,
  -- Its OID: the hash of "<kind> <length>\0<bytes>".
  oid text collate "C" not null,
  -- Git object type.
  kind text not null,
  -- Content without the header; at most 2 MiB.
  bytes bytea not null,
  -- When the push that brought it was committed.
  created_at timestamp with time zone not null default now(),
  constraint small_object_pkey PRIMARY KEY (repo_id, oid),
  constraint small_object_repo_id_fkey FOREIGN KEY (repo_id) REFERENCES repo(repo_id) ON DELETE CASCADE,
  constraint small_object_is_small CHECK (octet_length(bytes) <= 2097152),
  constraint small_object_kind_is_known CHECK (kind = ANY (ARRAY['commit'::text, 'tree'::text, 'blob'::text, 'tag'::text])),
  constraint small_object_oid_is_an_oid CHECK (oid ~ '^([0-9a-f]{40}|[0-9a-f]{64})$'::text)
);

-- Every effect, unfinished and finished, for readers.
create view effect as
 SELECT q.effect_id,
    q.repo_id,
    q.name,
    q.payload,
        CASE
            WHEN c.effect_id IS NOT NULL THEN 'claimed'::text
            WHEN q.run_at IS NOT NULL THEN 'scheduled'::text
            ELSE 'enqueued'::text
        END AS state,
    NULL::text AS outcome,
    q.last_error AS reason,
    q.priority,
    COALESCE(c.attempt, q.attempts) AS attempts,
    q.max_attempts,
    q.run_at,
    q.dedup_key,
    q.concurrency_group,
    q.push_id,
    c.claim_number,
    c.claimant,
    NULL::text AS result_ref,
    q.enqueued_at,
    c.claimed_at,
    NULL::timestamp with time zone AS finished_at
   FROM effect_queue q
     LEFT JOIN effect_claim c ON c.effect_id = q.effect_id
UNION ALL
 SELECT h.effect_id,
    h.repo_id,
    h.name,
    h.payload,
    h.state,
    h.outcome,
    h.reason,
    h.priority,
    h.attempts,
    h.max_attempts,
    NULL::timestamp with time zone AS run_at,
    h.dedup_key,
    h.concurrency_group,
    h.push_id,
    h.claim_number,
    h.claimant,
    h.result_ref,
    h.enqueued_at,
    h.claimed_at,
    h.finished_at
   FROM effect_history h;

-- Claims effects of the named repos, up to each one's cap and the global cap, exactly. The first row says what was refused and the room left by the global cap before; then one for each repo that was looked at; then one for each effect taken, in claim order.
create function fair_claim(claimed_by text, is_dispatcher boolean, repo_ids text[], wants integer[], since_claims bigint[], since_effects bigint[], awaited_ids text[], await_ms integer, default_cap integer)
 RETURNS TABLE(refused text, global_room integer, repo_id text, weight integer, cap integer, open_claims integer, is_paused boolean, lowest_claim text, effect_id text, claim_number text, attempt integer, name text, payload text, priority integer, max_attempts integer, push_id text)
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET jit TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET lock_timeout TO '5s'
AS $function$
#variable_conflict use_column
declare
  has_global_turn boolean := false;
  has_turn boolean[];
begin
  -- A snapshot that is older than a lock does not show what the lock was waited for.
  if current_setting('transaction_isolation') <> 'read committed' then
    refused := 'wrong_isolation';
    return next;
    return;
  end if;

  -- Under a global cap its turn is waited for first: who waits there holds up no repo, and who has it waits for nothing
  -- else. Without one, the awaited turns come first, in the order of all who wait for turns, and the global turn is
  -- shared by all who claim: the first claim under a cap that was set meanwhile waits for them, and counts what they took.
  if (select l.global_cap is not null from sluice.queue_limit l where l.is_singleton) then
    perform pg_advisory_xact_lock(7420, 0);
    has_global_turn := true;
  else
    if cardinality(awaited_ids) > 0 then
      perform set_config('lock_timeout', await_ms::text, true);
      perform count(pg_advisory_xact_lock(key)::text)
         from (select distinct hashtextextended(given.id, 7420) as key
                 from unnest(awaited_ids) as given (id) order by key offset 0) keys;
      perform set_config('lock_timeout', '5s', true);
    end if;
    perform pg_advisory_xact_lock_shared(7420, 0);
  end if;
  has_turn := array(
    select pg_try_advisory_xact_lock(hashtextextended(given.id, 7420))
      from unnest(repo_ids) with ordinality as given (id, position) order by given.position);

  -- Nothing is claimed in the name of a dispatcher that is registered no more: nobody would ever take it back. Nobody
  -- ends the registration before this claim has committed. The look comes after the lock, in a statement of its own.
  if is_dispatcher then
    if not pg_try_advisory_xact_lock_shared(hashtextextended(claimed_by, 7421)) then
      refused := 'dispatcher_gone';
    elsif not exists (select from sluice.dispatcher d where d.dispatcher_id = claimed_by::uuid) then
      refused := 'dispatcher_gone';
    end if;
    if refused is not null then
      return next;
      return;
    end if;
  end if;

  return query
    with limits as materialized (
      select (select case
                       when l.global_cap is null then null
                       -- The cap was set after we looked: nobody may count yet.
                       when not has_global_turn then 0
                       else greatest(0, l.global_cap - (
                         select count(*)::integer from (select from sluice.effect_claim limit l.global_cap) open))
                     end
                from sluice.queue_limit l
               where l.is_singleton) as room
    ), turns as materialized (
      select *
        from unnest(repo_ids, wants, since_claims, since_effects)
             with ordinality as turn (repo_id, want, since_claim, since_effect, position)
       where has_turn[turn.position]
    ), looked as materialized (
      select turns.*, coalesce(repo.weight, 1) as weight, coalesce(repo.cap, default_cap) as cap,
             repo.paused_at is not null as is_paused, open.claims as open_claims,
             least(turns.want, coalesce(repo.cap, default_cap) - open.claims) as room,
             -- No claim open: whoever claims next draws a higher number than any drawn so far.
             coalesce(open.lowest,
                      (select coalesce(pg_sequence_last_value('sluice.effect_claim_number_seq'), 1))) as lowest_claim
        from turns
        -- "offset 0" keeps a subquery a subquery: looked up once per turn, never joined with the whole table.
        left join lateral (
          select r.weight, r.cap, r.paused_at from sluice.repo r where r.repo_id = turns.repo_id offset 0
        ) repo on true
        cross join lateral (
          select count(*)::integer as claims, min(c.claim_number) as lowest
            from sluice.effect_claim c
           -- Pairs, so that only the index on the pair fits, and its walk begins at the mark.
           where (c.repo_id, c.claim_number)
                 between (turns.repo_id, turns.since_claim) and (turns.repo_id, 9223372036854775807)
        ) open
    ), picked as materialized (
      select looked.repo_id, nextval('sluice.effect_claim_number_seq') as claim_number, waiting.*
        from (select * from looked where not looked.is_paused and looked.room > 0 order by looked.position) looked
        cross join lateral (
          -- Highest priority first: the branches run in this order, and each only while there is room.
          select * from (
          select q.effect_id, q.attempts + 1 as attempt, q.name, q.payload, q.priority::integer, q.max_attempts, q.push_id
            from sluice.effect_queue q
           where q.repo_id = looked.repo_id and q.run_at is null and q.priority >= 1
             and not exists (select from sluice.effect_claim c where c.effect_id = q.effect_id offset 0)
           order by q.priority desc, q.effect_id
           limit looked.room
          ) urgent
          union all
          -- A range, although it holds one value: an equality would make the primary key look sorted enough, and the
          -- planner would walk the whole queue by id for one repo's rows.
          select * from (
          select q.effect_id, q.attempts + 1 as attempt, q.name, q.payload, q.priority::integer, q.max_attempts, q.push_id
            from sluice.effect_queue q
           where q.repo_id = looked.repo_id and q.run_at is null and q.priority >= 0 and q.priority <= 0 and q.effect_id >= looked.since_effect
             and not exists (select from sluice.effect_claim c where c.effect_id = q.effect_id offset 0)
           order by q.priority desc, q.effect_id
           limit looked.room
          ) ordinary
          union all
          select * from (
          select q.effect_id, q.attempts + 1 as attempt, q.name, q.payload, q.priority::integer, q.max_attempts, q.push_id
            from sluice.effect_queue q
           where q.repo_id = looked.repo_id and q.run_at is null and q.priority <= -1
             and not exists (select from sluice.effect_claim c where c.effect_id = q.effect_id offset 0)
           order by q.priority desc, q.effect_id
           limit looked.room
          ) patient
          limit looked.room
        ) waiting
       limit (select limits.room from limits)
    ), claimed as (
      insert into sluice.effect_claim (repo_id, claim_number, effect_id, attempt, claimant)
      select picked.repo_id, picked.claim_number, picked.effect_id, picked.attempt, claimed_by from picked
    )
    select null, limits.room, null, null::integer, null::integer, null::integer, null::boolean, null,
           null, null, null::integer, null, null, null::integer, null::integer, null
      from limits
    union all
    select null, null, looked.repo_id, looked.weight, looked.cap, looked.open_claims, looked.is_paused,
           looked.lowest_claim::text, null, null, null, null, null, null, null, null
      from looked
    union all
    select null, null, picked.repo_id, null, null, null, null, null, picked.effect_id::text, picked.claim_number::text,
           picked.attempt, picked.name, picked.payload, picked.priority, picked.max_attempts, picked.push_id
      from picked;
end
$function$;
