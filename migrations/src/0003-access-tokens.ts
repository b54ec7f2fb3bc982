import { sql, type Kysely } from 'kysely';

/** Accounts: who may reach which repositories over HTTP, and what for. Of the whole server, not of one repository. */
export async function up(db: Kysely<unknown>): Promise<void> {
  for (const statement of STATEMENTS) await sql.raw(statement).execute(db);
}

export async function down(db: Kysely<unknown>): Promise<void> {
  await sql.raw('drop table access_token').execute(db);
}

const STATEMENTS = [
  `create table access_token (
    token_id     bigint generated always as identity primary key,
    token_hash   bytea not null
                 constraint token_hash_is_unique unique
                 constraint token_hash_is_of_sha256 check (octet_length(token_hash) = 32),
    name         text collate "C" not null
                 constraint token_name_is_one_word check (name ~ '^[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}$'),
    repo_pattern text collate "C" not null
                 constraint repo_pattern_is_a_repo_or_ends_with_a_star
                 check (repo_pattern ~ '^([A-Za-z0-9._/@:+-]{1,200}|[*]|[A-Za-z0-9._/@:+-]{1,198}/[*])$'),
    scopes       text[] not null
                 constraint scopes_are_known check (scopes <@ array['read', 'write', 'admin', 'worker'])
                 constraint scopes_are_not_empty check (cardinality(scopes) between 1 and 4),
    created_at   timestamptz not null default now(),
    expires_at   timestamptz,
    revoked_at   timestamptz
  )`,
  `comment on table access_token is 'A password for git over HTTP: whose it is, and what it opens.'`,
  `comment on column access_token.token_id is 'Names it for people; says nothing about the token.'`,
  `comment on column access_token.token_hash is 'SHA-256 of the token, which is 256 random bits and stored nowhere.'`,
  `comment on column access_token.name is 'Whose it is, such as alice or build-bot. Several tokens may share one.'`,
  `comment on column access_token.repo_pattern is 'A repository, or a prefix with /*, or * for all.'`,
  `comment on column access_token.scopes is 'What it is for: read, write (and read), admin (and write), worker.'`,
  `comment on column access_token.created_at is 'When it was made, by the database clock.'`,
  `comment on column access_token.expires_at is 'From when on it opens nothing; NULL: never.'`,
  `comment on column access_token.revoked_at is 'Since when it opens nothing; NULL: it was not revoked.'`,
];
