import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** A key pair that `ssh-keygen` made. */
export interface SigningKey {
  file: string;
  /** The line of the `.pub` file. */
  publicKey: string;
}

function sshKeygen(args: readonly string[], input = ''): string {
  const { status, stdout, stderr } = spawnSync('ssh-keygen', args, {
    input,
    encoding: 'utf8',
    timeout: 20_000,
  });
  if (status !== 0) throw new Error(`ssh-keygen ${args.join(' ')} exited ${status}: ${stderr}`);
  return stdout;
}

export function makeKey(folder: string, name: string, type = 'ed25519'): SigningKey {
  const file = join(folder, `key-${name}`);
  sshKeygen(['-q', '-t', type, '-N', '', '-C', name, '-f', file]);
  return { file, publicKey: readFileSync(`${file}.pub`, 'utf8').trim() };
}

/** Options that make stock git sign its push with a key. */
export function signingWith({ file }: SigningKey): string[] {
  return ['-c', 'gpg.format=ssh', '-c', `user.signingkey=${file}`];
}

/** Whether `ssh-keygen`, outside of Sluice, finds that the key signed the certificate. */
export function verifiesOutside(certificate: Buffer, { publicKey }: SigningKey, folder: string): boolean {
  const at = certificate.indexOf('-----BEGIN SSH SIGNATURE-----');
  const [signers, signature] = [join(folder, 'signers'), join(folder, 'signature')];
  writeFileSync(signers, `someone ${publicKey}\n`);
  writeFileSync(signature, certificate.subarray(at));
  const args = ['-Y', 'verify', '-n', 'git', '-I', 'someone', '-f', signers, '-s', signature];
  return spawnSync('ssh-keygen', args, { input: certificate.subarray(0, at), timeout: 20_000 }).status === 0;
}

export interface CertificateParts {
  pushee: string;
  nonce: string;
  commands: readonly { old?: string; new?: string; name: string | Buffer }[];
  key: SigningKey;
  pushOptions?: readonly string[];
  namespace?: string;
}

const ZERO = '0'.repeat(40);

/** A certificate as git makes it, with anything in it. */
export function makeCertificate({ pushee, nonce, commands, key, ...more }: CertificateParts): string {
  const options = (more.pushOptions ?? []).map((option) => `push-option ${option}\n`).join('');
  const list = commands.map(
    ({ old: from, new: to, name }) => `${from ?? ZERO} ${to ?? ZERO} ${name.toString()}\n`,
  );
  const signed = `certificate version 0.1\npusher key 1700000000 +0000\npushee ${pushee}\nnonce ${nonce}\n${options}\n${list.join('')}`;
  return signed + sshKeygen(['-q', '-Y', 'sign', '-n', more.namespace ?? 'git', '-f', key.file], signed);
}
