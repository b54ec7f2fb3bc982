import { sql, type Kysely } from 'kysely';

/** Who made a repository, and how many somebody may make. Tokens that are there already keep no limit. */
export async function up(db: Kysely<unknown>): Promise<void> {
  for (const statement of STATEMENTS) await sql.raw(statement).execute(db);
}

export async function down(db: Kysely<unknown>): Promise<void> {
  await sql.raw('alter table repo drop column made_by').execute(db);
  await sql.raw('alter table access_token drop column repos_max').execute(db);
}

const STATEMENTS = [
  `alter table access_token add column repos_max integer
     constraint repos_max_is_not_negative check (repos_max >= 0)`,
  `comment on column access_token.repos_max is 'A first push with it is refused once its owner has made so many repositories, with whatever token; NULL: no limit.'`,
  `alter table repo add column made_by text collate "C"`,
  `create index repo_of_maker_idx on repo (made_by) where made_by is not null`,
  `comment on column repo.made_by is 'Whose first push made it, by the name of a token; NULL: nobody in particular, or before this was recorded.'`,
];
