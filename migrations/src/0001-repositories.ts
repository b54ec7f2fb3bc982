import { sql, type Kysely } from 'kysely';

/**
 * Repositories and their state: refs, reflog, op records, small objects. Everything here belongs to one repo, but for
 * the keys that sign the op records of all.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  for (const statement of STATEMENTS) await sql.raw(statement).execute(db);
}

export async function down(db: Kysely<unknown>): Promise<void> {
  await sql.raw('drop table server_key, small_object, op_record, reflog, ref, repo').execute(db);
}

const OID = `'^([0-9a-f]{40}|[0-9a-f]{64})$'`;

const STATEMENTS = [
  `create table repo (
    repo_id       text collate "C" primary key
                  constraint repo_id_is_a_short_path check (repo_id ~ '^[A-Za-z0-9._/@:+-]{1,200}$'),
    object_format text not null default 'sha1'
                  constraint object_format_is_known check (object_format in ('sha1', 'sha256')),
    head_ref      text collate "C" not null default 'refs/heads/main',
    cap           integer
                  constraint cap_is_positive check (cap between 1 and 100000),
    weight        integer not null default 1
                  constraint weight_is_within_1_and_1000 check (weight between 1 and 1000),
    paused_at     timestamptz,
    max_queued    integer
                  constraint max_queued_is_not_negative check (max_queued >= 0),
    refs_version  bigint not null default 0,
    op_seq        bigint not null default 0,
    op_tip        text collate "C"
                  constraint op_tip_is_an_oid check (op_tip ~ ${OID}),
    created_at    timestamptz not null default now()
  )`,
  `comment on table repo is 'A repository: the tenant of the queue and the owner of refs.'`,
  `comment on column repo.repo_id is 'Text key such as acme/api.'`,
  `comment on column repo.object_format is 'Hash of its objects: sha1 or sha256.'`,
  `comment on column repo.head_ref is 'The branch a clone checks out: the first branch ever pushed.'`,
  `comment on column repo.cap is 'Most effects of this repo that may be claimed at once; NULL: the dispatcher''s default.'`,
  `comment on column repo.weight is 'Share of the service relative to other repos that have work, 1 to 1000.'`,
  `comment on column repo.paused_at is 'Since when nothing of this repo is claimed; NULL: it is not paused.'`,
  `comment on column repo.max_queued is 'Most effects that may wait; a match beyond it is recorded as skipped. NULL: no limit.'`,
  `comment on column repo.refs_version is 'Rises by one with each accepted push; an on-disk cache of refs compares it.'`,
  `comment on column repo.op_seq is 'Sequence number of the newest op record; 0: none yet.'`,
  `comment on column repo.op_tip is 'Push id of the newest op record, parent of the next one.'`,
  `comment on column repo.created_at is 'When the repository was first pushed to or set up.'`,

  `create table ref (
    repo_id text collate "C" not null references repo on delete cascade,
    name    text collate "C" not null
            constraint ref_name_is_below_refs check (name like 'refs/%' and octet_length(name) <= 1024),
    oid     text collate "C" not null
            constraint ref_oid_is_an_oid check (oid ~ ${OID}),
    primary key (repo_id, name)
  )`,
  `comment on table ref is 'A ref of a repository. This table is the truth; packed-refs on disk is a cache of it.'`,
  `comment on column ref.repo_id is 'Repository.'`,
  `comment on column ref.name is 'Full name, such as refs/heads/main.'`,
  `comment on column ref.oid is 'What it points at, in lower-case hex.'`,

  `create table op_record (
    push_id    text collate "C" primary key
               constraint push_id_is_an_oid check (push_id ~ ${OID}),
    repo_id    text collate "C" not null references repo on delete cascade,
    seq        bigint not null,
    parent     text collate "C"
               constraint op_parent_is_an_oid check (parent ~ ${OID}),
    cert_oid   text collate "C"
               constraint cert_oid_is_an_oid check (cert_oid ~ ${OID}),
    signer     text,
    signature  text,
    body       bytea,
    created_at timestamptz not null default now(),
    constraint op_record_seq_is_unique unique (repo_id, seq),
    constraint op_record_cert_is_used_once unique (repo_id, cert_oid),
    constraint op_record_body_is_signed check ((body is null) = (signature is null))
  )`,
  `comment on table op_record is 'The signed record of one accepted push; its OID is the push id.'`,
  `comment on column op_record.push_id is 'OID of the op record, a git commit object.'`,
  `comment on column op_record.repo_id is 'Repository.'`,
  `comment on column op_record.seq is 'Position in the repository''s log, from 1, without gaps.'`,
  `comment on column op_record.parent is 'Push id of the previous op record; NULL for the first.'`,
  `comment on column op_record.cert_oid is 'Blob OID of the push certificate; NULL when the push was not signed.'`,
  `comment on column op_record.signer is 'Who pushed, as far as it was proven.'`,
  `comment on column op_record.signature is 'Armoured SSH signature of the server over the commit object without its gpgsig header.'`,
  `comment on column op_record.body is 'The commit object''s bytes, signature included; hashing them gives the push id.'`,
  `comment on column op_record.created_at is 'When the push was committed, by the database clock.'`,

  `create table reflog (
    repo_id    text collate "C" not null references repo on delete cascade,
    reflog_id  bigint generated always as identity,
    push_id    text collate "C" not null references op_record on delete cascade deferrable initially deferred,
    name       text collate "C" not null,
    old_oid    text collate "C",
    new_oid    text collate "C",
    created_at timestamptz not null default now(),
    primary key (repo_id, reflog_id),
    constraint reflog_edit_changes_something check (old_oid is distinct from new_oid)
  )`,
  `create index reflog_of_push_idx on reflog (push_id)`,
  `create index reflog_of_ref_idx on reflog (repo_id, name, reflog_id)`,
  `comment on table reflog is 'One applied ref edit; append-only.'`,
  `comment on column reflog.repo_id is 'Repository.'`,
  `comment on column reflog.reflog_id is 'Rises with each edit.'`,
  `comment on column reflog.push_id is 'The push that made the edit.'`,
  `comment on column reflog.name is 'Full name of the ref.'`,
  `comment on column reflog.old_oid is 'Value before; NULL: the ref did not exist.'`,
  `comment on column reflog.new_oid is 'Value after; NULL: the ref was deleted.'`,
  `comment on column reflog.created_at is 'When the push was committed.'`,

  `create table small_object (
    repo_id     text collate "C" not null references repo on delete cascade,
    oid         text collate "C" not null
                constraint small_object_oid_is_an_oid check (oid ~ ${OID}),
    kind        text not null
                constraint small_object_kind_is_known check (kind in ('commit', 'tree', 'blob', 'tag')),
    bytes       bytea not null
                constraint small_object_is_small check (octet_length(bytes) <= 2097152),
    promoted_at timestamptz,
    created_at  timestamptz not null default now(),
    primary key (repo_id, oid)
  )`,
  `create index small_object_staged_idx on small_object (created_at) where promoted_at is null`,
  `comment on table small_object is 'A small git object (op record, certificate, definition), readable from any machine.'`,
  `comment on column small_object.repo_id is 'Repository.'`,
  `comment on column small_object.oid is 'Its OID: the hash of "<kind> <length>\\0<bytes>".'`,
  `comment on column small_object.kind is 'Git object type.'`,
  `comment on column small_object.bytes is 'Content without the header; at most 2 MiB.'`,
  `comment on column small_object.promoted_at is 'When a committed push began to need it; NULL: staged, and swept after a while.'`,
  `comment on column small_object.created_at is 'When it was stored.'`,

  `create table server_key (
    fingerprint   text collate "C" primary key
                  constraint fingerprint_is_of_sha256 check (fingerprint ~ '^SHA256:[A-Za-z0-9+/]{43}$'),
    public_key    text not null
                  constraint server_key_is_registered_once unique
                  constraint public_key_is_one_of_ssh check (public_key ~ '^ssh-ed25519 [A-Za-z0-9+/=]+$'),
    registered_at timestamptz not null default now(),
    retired_at    timestamptz
  )`,
  `comment on table server_key is 'The public part of a key that a pusher signs op records with.'`,
  `comment on column server_key.fingerprint is 'What ssh-keygen -l prints.'`,
  `comment on column server_key.public_key is 'As in an allowed-signers file, without a comment.'`,
  `comment on column server_key.registered_at is 'When a pusher first started with it.'`,
  `comment on column server_key.retired_at is 'Since when it signs no more; what it signed before stays good. NULL: it may sign.'`,
];
