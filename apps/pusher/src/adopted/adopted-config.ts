import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ServerKey } from '@sluice/ref-store';
import { ADOPTED } from '../git/adopted-folder.ts';
import { nonceSeed } from '../git/certificate-nonce.ts';
import { replaceFile } from '../git/replace-file.ts';
import { adoptedConfiguration } from '../git/serve-configuration.ts';
import { readGoverningRefs } from '../push/read-governing-refs.ts';
import type { AdoptedRepository } from './open-adopted.ts';

/**
 * Writes the configuration that hands every push of an adopted repository to its hooks, unless it is there. Clients may
 * sign as soon as there is a member whose signature can be checked.
 */
export async function writeAdoptedConfig({
  db,
  repoId,
  folder,
  key,
}: Pick<AdoptedRepository, 'db' | 'repoId' | 'folder' | 'key'>): Promise<void> {
  const path = join(folder, ADOPTED.config);
  const { members } = await readGoverningRefs(db, { repoId, membersMax: 0 });
  const wanted = textOf(members.length > 0 ? seedOf(key, repoId) : null);
  if ((await readFile(path, 'utf8').catch(() => '')) !== wanted) await replaceFile(path, wanted);
}

function textOf(seed: string | null): string {
  const lines = adoptedConfiguration({ nonceSeed: seed }).map(([name, value]) => {
    const dot = name.lastIndexOf('.');
    return `[${name.slice(0, dot)}]\n\t${name.slice(dot + 1)} = ${value}\n`;
  });
  return `# Written by sluice hook install, and again when there are members.\n${lines.join('')}`;
}

/** A seed for each repository: git puts the path as the client spelled it into a nonce, and two may be spelled alike. */
function seedOf(key: ServerKey, repoId: string): string {
  return createHash('sha256')
    .update(`${nonceSeed(key)} ${repoId}`)
    .digest('hex');
}
