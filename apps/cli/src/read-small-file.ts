import { open } from 'node:fs/promises';
import { DEFINITION_LIMITS } from '@sluice/effect-spec';
import { CommandError } from './command-error.ts';

/** The file's bytes, `what` says which file it should be; one byte more than the limit is enough for the parser to refuse it. */
export async function readSmallFile(path: string, shown: string, what: string): Promise<Buffer> {
  try {
    await using file = await open(path);
    const buffer = Buffer.alloc(DEFINITION_LIMITS.bytes + 1);
    let length = 0;
    for (;;) {
      const { bytesRead } = await file.read(buffer, length, buffer.length - length);
      if (bytesRead === 0) return buffer.subarray(0, length);
      length += bytesRead;
    }
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? '';
    const why =
      { ENOENT: 'there is no such file', EISDIR: 'it is a folder', EACCES: 'it may not be read' }[code] ??
      code;
    throw new CommandError(`cannot read ${shown}: ${why}`, `Name the file with ${what}.`);
  }
}
