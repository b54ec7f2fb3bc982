import { createHash } from 'node:crypto';
import { resolve } from 'node:path';
import { isWholePublicKey, normalizePublicKey, PUBLIC_KEY_TYPES } from '@sluice/effect-spec';
import { CommandError } from '../command-error.ts';
import { readSmallFile } from '../read-small-file.ts';
import { printableLine } from '../terminal.ts';

/** A line of a `.pub` file. */
export interface PublicKey {
  /** Type and base64. */
  readonly key: string;
  /** As `ssh-keygen -l` shows it. */
  readonly fingerprint: string;
  readonly comment: string;
}

const MAKE_ONE = 'Name the .pub file of a key; ssh-keygen -t ed25519 makes a new one.';

/** The public key in a file, which has to hold that one and nothing else. */
export async function readPublicKeyFile(cwd: string, file: string): Promise<PublicKey> {
  const text = (
    await readSmallFile(resolve(cwd, file), file, 'a public key, such as ~/.ssh/id_ed25519.pub')
  ).toString('utf8');
  if (/^-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----/m.test(text)) {
    throw new CommandError(
      `${file}: expected a public key, got a private one; nothing was pushed`,
      `Name its public half, most often ${file}.pub; ssh-keygen -y -f ${file} prints it.`,
    );
  }
  const lines = text.split(/\r?\n/).filter((line) => line.trim() !== '' && !line.startsWith('#'));
  const [line, ...more] = lines;
  if (line === undefined) throw new CommandError(`${file}: expected a public key, got nothing`, MAKE_ONE);
  if (more.length > 0) {
    throw new CommandError(
      `${file}: expected one public key, got ${lines.length} lines`,
      'Give each key a file of its own, and run it once for each.',
    );
  }
  const key = readPublicKey(line);
  if (key !== undefined && isWholePublicKey(key.key)) return key;
  const type = printableLine(line).split(' ')[0]!.slice(0, 60);
  throw new CommandError(
    PUBLIC_KEY_TYPES.includes(type)
      ? `${file}: expected a whole public key of the type ${type}, got one that is cut off or was changed`
      : `${file}: expected a public key of the type ${PUBLIC_KEY_TYPES.join(', ')}, got ${JSON.stringify(type)}`,
    MAKE_ONE,
  );
}

/** The key in a line of a `.pub` file; undefined if there is none. */
export function readPublicKey(line: string): PublicKey | undefined {
  const key = normalizePublicKey(line);
  if (key === undefined) return undefined;
  const blob = Buffer.from(key.split(' ')[1]!, 'base64');
  const hash = createHash('sha256').update(blob).digest('base64').replace(/=+$/, '');
  const [, , ...comment] = printableLine(line).split(' ');
  return { key, fingerprint: `SHA256:${hash}`, comment: comment.join(' ') };
}

/** The key and its comment, as a member's file holds them. */
export function publicKeyLine({ key, comment }: PublicKey): string {
  return comment === '' ? key : `${key} ${comment}`;
}
