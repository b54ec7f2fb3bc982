import type { Terminal } from './terminal.ts';

export function showLog(_terminal: Terminal, _effect: string, _options: { follow?: true }): Promise<void> {
  return Promise.resolve();
}
