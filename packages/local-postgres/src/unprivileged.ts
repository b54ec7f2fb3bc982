import { execFileSync } from 'node:child_process';
import { chownSync, lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

/** How to run a program that refuses to run as root. */
export interface Unprivileged {
  /** Put in front of the program and its arguments. */
  prefix: readonly string[];
  /** Who must own the data directory, as seen from here. */
  uid: number;
}

const NOBODY = 65_534;

/** An ordinary user of a user namespace, which outside of it still is root: files under a private home stay readable. */
const NAMESPACE = ['unshare', '--user', '--map-user=1000', '--map-group=1000', '--'];

/**
 * Another user, who may still pass through folders that are private to root. Where namespaces are forbidden. Without
 * the secure bit, `access()` would ignore the capability, and initdb asks it whether it may run itself.
 */
const OTHER_USER = [
  'setpriv',
  '--securebits=+no_setuid_fixup',
  `--reuid=${NOBODY}`,
  `--regid=${NOBODY}`,
  '--clear-groups',
  '--inh-caps=+dac_override',
  '--ambient-caps=+dac_override',
  '--',
];

/** PostgreSQL refuses to run as root; anyone else runs it directly. */
export function unprivileged(): Unprivileged {
  const uid = process.getuid?.();
  if (uid !== 0) return { prefix: [], uid: uid ?? -1 };
  if (works(NAMESPACE)) return { prefix: NAMESPACE, uid: 0 };
  if (works(OTHER_USER)) return { prefix: OTHER_USER, uid: NOBODY };
  throw new Error(
    'PostgreSQL: expected to drop root by unshare --user or setpriv --reuid, got neither to work here. ' +
      'Run as an ordinary user, or set DATABASE_URL (or TEST_DATABASE_URL) to a server of your own.',
  );
}

function works(prefix: readonly string[]): boolean {
  try {
    execFileSync(prefix[0]!, [...prefix.slice(1), 'true'], { stdio: 'ignore', timeout: 10_000 });
    return true;
  } catch {
    return false;
  }
}

/** Hands a folder and all in it to the user, unless it is that user's already. */
export function giveTo(path: string, uid: number): void {
  if (process.getuid?.() !== 0) return;
  const stat = lstatSync(path);
  if (stat.uid === uid && !stat.isDirectory()) return;
  if (stat.uid !== uid) chownSync(path, uid, uid);
  if (stat.isDirectory()) for (const name of readdirSync(path)) giveTo(join(path, name), uid);
}
