import type { Terminal } from './terminal.ts';
import { withDatabase } from './with-database.ts';

export async function showQueue(
  terminal: Terminal,
  _options: { repo?: string; limit: number; watch?: true },
): Promise<void> {
  await withDatabase(terminal, () => Promise.resolve());
}
