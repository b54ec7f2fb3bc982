import { readFile, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { ADOPTED } from '../git/adopted-folder.ts';
import { readCertificateFacts, readList, type CertificateFacts } from '../push/receive-pack.ts';
import type { Command } from '../wire/preamble.ts';

/** What pre-receive was shown of a push: the whole list, of which git hands over what it does not refuse itself. */
export interface PushNote {
  announced: Command[];
  certificate: CertificateFacts;
}

/** Takes the note that pre-receive left for this push; null: there is none. Both are children of one git process. */
export async function takePushNote(folder: string, gitPid: number): Promise<PushNote | null> {
  const path = join(folder, ADOPTED.pushes, String(gitPid));
  try {
    const note = await readFile(path);
    await unlink(path);
    const lineEnd = note.indexOf(0x0a);
    return {
      certificate: readCertificateFacts(note.subarray(0, lineEnd)),
      announced: readList(note.subarray(lineEnd + 1)),
    };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}
