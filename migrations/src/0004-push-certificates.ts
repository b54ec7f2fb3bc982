import { sql, type Kysely } from 'kysely';

/** What members signed, so that no signature counts twice. */
export async function up(db: Kysely<unknown>): Promise<void> {
  for (const statement of STATEMENTS) await sql.raw(statement).execute(db);
}

export async function down(db: Kysely<unknown>): Promise<void> {
  await sql.raw('drop table push_certificate').execute(db);
}

const STATEMENTS = [
  `create table push_certificate (
    repo_id     text collate "C" not null references repo on delete cascade,
    signed_hash bytea not null
                constraint signed_hash_is_of_sha256 check (octet_length(signed_hash) = 32),
    push_id     text collate "C" not null references op_record on delete cascade,
    primary key (repo_id, signed_hash)
  )`,
  `create index push_certificate_of_push_idx on push_certificate (push_id)`,
  `comment on table push_certificate is 'A push certificate that was used. The signed text counts once, whatever its signature looks like: some kinds of signature have several spellings.'`,
  `comment on column push_certificate.repo_id is 'Repository.'`,
  `comment on column push_certificate.signed_hash is 'SHA-256 of the text that was signed; the nonce in it is of this repository and this server.'`,
  `comment on column push_certificate.push_id is 'The push it was used for.'`,
];
