import { lstatSync, readlinkSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import type { EffectSpec } from './effect-executor.ts';

/** File descriptors of bwrap beyond the standard ones. */
export const STATUS_FD = 3;
export const ARGUMENTS_FD = 4;

/** The user the command is inside the sandbox: not root, since many programs refuse to run as root. */
const USER_ID = '1000';
const TEMPORARY_BYTES_MAX = 1024 ** 3;
const SHARED_MEMORY_BYTES_MAX = 256 * 1024 ** 2;

const SYSTEM_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
const SYSTEM_FOLDERS = ['bin', 'sbin', 'lib', 'lib32', 'lib64', 'libx32'];

const ISOLATION = words(
  '--unshare-all --unshare-user --disable-userns --die-with-parent --new-session --cap-drop ALL',
  `--uid ${USER_ID} --gid ${USER_ID} --hostname effect --json-status-fd ${STATUS_FD}`,
);

const PRIVATE_FOLDERS = words(
  '--proc /proc --dev /dev',
  `--perms 1777 --size ${SHARED_MEMORY_BYTES_MAX} --tmpfs /dev/shm --remount-ro /dev`,
  `--perms 1777 --size ${TEMPORARY_BYTES_MAX} --tmpfs /tmp`,
  `--size ${TEMPORARY_BYTES_MAX} --tmpfs /home --dir /home/effect`,
);

/** What programs need of the host's `/etc` to start: no names of people, keys or services. */
const ETC_FILES = [
  'alternatives',
  'ca-certificates',
  'ld.so.cache',
  'ld.so.conf',
  'ld.so.conf.d',
  'localtime',
  'mime.types',
  'pki',
  'protocols',
  'services',
  'ssl/certs',
  'ssl/openssl.cnf',
];

/** Small files of the sandbox's own, written into the run's folder. */
export const OWN_ETC_FILES: Readonly<Record<string, string>> = {
  group: `effect:x:${USER_ID}:\n`,
  hosts: '127.0.0.1 localhost\n::1 localhost\n',
  'nsswitch.conf': 'passwd: files\ngroup: files\nhosts: files dns\n',
  passwd: `effect:x:${USER_ID}:${USER_ID}:effect:/home/effect:/bin/sh\n`,
};

/**
 * The sandbox, as arguments for bwrap 0.8 or newer: all namespaces, no capabilities, no further user namespaces, a
 * read-only root of the host's programs, a private `/tmp`, `/home` and `/dev/shm` of limited size, and the work tree at
 * `/work`. Variables are set in here and not by bwrap's own environment: a loader variable must not reach bwrap itself,
 * which runs outside.
 */
export function bubblewrapArguments(
  spec: Pick<EffectSpec, 'env' | 'folder' | 'hasNetwork'>,
  readOnlyPaths: readonly string[],
): string[] {
  const variables = {
    PATH: SYSTEM_PATH,
    LANG: 'C.UTF-8',
    CI: 'true',
    HOME: '/home/effect',
    TMPDIR: '/tmp',
    ...spec.env,
  };
  const bind = (from: string, to: string): string[] => ['--ro-bind', from, to];
  return [
    ...ISOLATION,
    ...(spec.hasNetwork ? ['--share-net'] : []),
    ...bind('/usr', '/usr'),
    ...SYSTEM_FOLDERS.flatMap(systemFolder),
    ...ETC_FILES.flatMap((name) => ['--ro-bind-try', `/etc/${name}`, `/etc/${name}`]),
    ...Object.keys(OWN_ETC_FILES).flatMap((name) => bind(join(spec.folder, 'etc', name), `/etc/${name}`)),
    ...(spec.hasNetwork ? resolverFile() : []),
    ...PRIVATE_FOLDERS,
    // After the private folders, which would hide a granted path below /tmp or /home.
    ...readOnlyPaths.flatMap((path) => bind(path, path)),
    '--bind',
    join(spec.folder, 'work'),
    '/work',
    '--chdir',
    '/work',
    '--remount-ro',
    '/',
    '--clearenv',
    ...Object.entries(variables).flatMap(([name, value]) => ['--setenv', name, value]),
  ];
}

/** `/bin` and its like are links into `/usr` on merged systems, and folders of their own on others. */
function systemFolder(name: string): string[] {
  const kind = lstatSync(`/${name}`, { throwIfNoEntry: false });
  if (kind === undefined) return [];
  return kind.isSymbolicLink()
    ? ['--symlink', readlinkSync(`/${name}`), `/${name}`]
    : ['--ro-bind', `/${name}`, `/${name}`];
}

function resolverFile(): string[] {
  try {
    // Often a link into /run, which the sandbox does not have.
    return ['--ro-bind', realpathSync('/etc/resolv.conf'), '/etc/resolv.conf'];
  } catch {
    return [];
  }
}

function words(...lines: readonly string[]): string[] {
  return lines.flatMap((line) => line.split(' '));
}
