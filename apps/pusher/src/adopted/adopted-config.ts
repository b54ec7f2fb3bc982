import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ServerKey } from '@sluice/ref-store';
import { replaceFile } from '../git/replace-file.ts';
import { adoptedConfiguration } from '../git/serve-configuration.ts';
import { nonceSeed } from '../push/certificate-nonce.ts';
import { ADOPTED } from './adopted-folder.ts';

export interface AdoptedConfig {
  repoId: string;
  key: ServerKey;
  /** Whether there are members, whose signatures can be checked. */
  hasMembers: boolean;
}

/** Writes the configuration that hands every push of an adopted repository to its hooks, unless it is there. */
export async function writeAdoptedConfig(folder: string, config: AdoptedConfig): Promise<void> {
  const path = join(folder, ADOPTED.config);
  const wanted = textOf(config);
  if ((await readFile(path, 'utf8').catch(() => '')) !== wanted) await replaceFile(path, wanted);
}

function textOf({ repoId, key, hasMembers }: AdoptedConfig): string {
  const entries = adoptedConfiguration({ nonceSeed: hasMembers ? seedOf(key, repoId) : null });
  const lines = entries.map(([name, value]) => {
    const dot = name.lastIndexOf('.');
    return `[${name.slice(0, dot)}]\n\t${name.slice(dot + 1)} = ${value}\n`;
  });
  return `# Written by sluice hook install, and again when members come or go.\n${lines.join('')}`;
}

/** A seed for each repository: git puts the path as the client spelled it into a nonce, and two may be spelled alike. */
function seedOf(key: ServerKey, repoId: string): string {
  return createHash('sha256')
    .update(`${nonceSeed(key)} ${repoId}`)
    .digest('hex');
}
