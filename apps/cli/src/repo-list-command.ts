import type { ObjectFormat } from '@sluice/ref-store';
import { formatInstant } from './format-instant.ts';
import { ObjectStore, type DiskUse } from './object-store.ts';
import { printableLine, table, type Terminal } from './terminal.ts';
import { withDatabase } from './with-database.ts';

const HEADING = ['REPOSITORY', 'PUSHES', 'LAST PUSH', 'PACKS', 'SIZE', 'MAINTAINED'];

/** `sluice repo list`: the repositories by name, and what each takes on this machine's disk. */
export async function listRepos(
  terminal: Terminal,
  { limit, after }: { limit: number; after?: string },
): Promise<void> {
  const repos = await withDatabase(terminal, (db) =>
    db
      .selectFrom('repo')
      .leftJoin('op_record', 'op_record.push_id', 'repo.op_tip')
      .select(['repo.repo_id', 'repo.object_format', 'repo.op_seq', 'op_record.created_at'])
      .where('repo.repo_id', '>', after ?? '')
      .orderBy('repo.repo_id')
      .limit(limit + 1)
      .execute(),
  );
  const store = new ObjectStore(terminal);
  const rows: string[][] = [];
  for (const { repo_id, object_format, op_seq, created_at } of repos.slice(0, limit)) {
    const use = await store.diskUse({ repoId: repo_id, objectFormat: object_format as ObjectFormat });
    rows.push([
      repo_id,
      String(op_seq),
      created_at === null ? '' : formatInstant(created_at),
      ...describeUse(use),
    ]);
  }
  const none = `there are no repositories${after === undefined ? '' : ` after ${printableLine(after)}`}\n`;
  terminal.stdout.write(rows.length === 0 ? none : table(HEADING, rows));
  if (repos.length > limit) {
    terminal.stdout.write(`and more: sluice repo list --after ${rows.at(-1)![0]}\n`);
  }
}

function describeUse(use: DiskUse | null): string[] {
  if (use === null) return ['', '', ''];
  return [
    String(use.packs),
    formatBytes(use.bytes),
    use.maintainedAt === null ? '' : formatInstant(use.maintainedAt),
  ];
}

const UNITS = ['B', 'kB', 'MB', 'GB', 'TB'];

/** Three digits at most, in powers of a thousand. */
export function formatBytes(bytes: number): string {
  const power = Math.min(UNITS.length - 1, Math.floor(Math.log10(Math.max(bytes, 1)) / 3));
  const value = bytes / 1000 ** power;
  return `${value < 10 && power > 0 ? value.toFixed(1) : Math.round(value)} ${UNITS[power]}`;
}
