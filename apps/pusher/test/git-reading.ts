import { execFile } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { hashObject } from '@sluice/ref-store';
import { gitEnvironment } from '../src/git/git-environment.ts';
import { receivePackConfiguration } from '../src/git/serve-configuration.ts';
import { decodePkt } from '../src/wire/pkt-line.ts';
import type { Preamble } from '../src/wire/preamble.ts';
import { EMPTY_PACK } from './raw-push.ts';

/** What a reader of a preamble understood; latin1 stands for bytes. */
export interface Reading {
  /** `<old> <new> <name>`, each with a line feed, as git writes them to its hooks. */
  commands: string;
  pushOptions: string[];
  /** Blob OID of the certificate, and whether its nonce is {@link NONCE}. */
  certificate: { oid: string; hasNonce: boolean } | null;
  isReported: boolean;
  isBanded: boolean;
}

/** What {@link parsePreamble} understood. */
export function readingOf({ commands, pushOptions, certificate, capabilities }: Preamble): Reading {
  return {
    commands: commands
      .map(({ oldOid, newOid, name }) => `${oldOid} ${newOid} ${name.toString('latin1')}\n`)
      .join(''),
    pushOptions: pushOptions.map((option) => Buffer.from(option).toString('latin1')),
    certificate:
      certificate === null
        ? null
        : { oid: hashObject('sha1', 'blob', certificate.bytes), hasNonce: certificate.nonce === NONCE },
    isReported: capabilities.has('report-status') || capabilities.has('report-status-v2'),
    isBanded: capabilities.has('side-band-64k'),
  };
}

const [REPO, SEED, STAMP] = ['repo.git', 'seed', 1_700_000_000];

/** A nonce that git takes for its own. */
export const NONCE = `${STAMP}-${createHmac('sha1', `${REPO}:${STAMP}`).update(SEED).digest('hex')}`;

const HOOK = `#!/bin/sh
env -0 >"$READING/environment" && cat >"$READING/commands"
exit 1
`;

/** Shows preambles to git itself, configured as the pusher configures it, with a hook that writes down what it is told. */
export class GitReader {
  readonly #folder: string;
  readonly #reading: string;
  readonly #env: Record<string, string>;

  constructor(folder: string) {
    this.#folder = folder;
    this.#reading = join(folder, 'reading');
    const hooksFolder = join(folder, 'hooks');
    for (const made of [this.#reading, hooksFolder]) mkdirSync(made);
    writeFileSync(join(hooksFolder, 'pre-receive'), HOOK, { mode: 0o755 });
    const config = receivePackConfiguration({
      folder: join(folder, REPO),
      hooksFolder,
      pushBytesMax: 1_000_000,
      claimRef: null,
      nonceSeed: SEED,
    });
    config.push(['receive.certNonceSlop', '2000000000']);
    this.#env = { ...gitEnvironment({ home: folder, config }), READING: this.#reading };
  }

  /** What git understands of a preamble and an empty pack; a text: what it says when it takes it for none. */
  async read(preamble: Buffer): Promise<Reading | string> {
    if (!existsSync(join(this.#folder, REPO)))
      await this.#git(['init', '--quiet', '--bare', REPO], Buffer.alloc(0));
    for (const file of ['environment', 'commands']) rmSync(join(this.#reading, file), { force: true });
    const input = Buffer.concat([preamble, EMPTY_PACK]);
    const { stdout, stderr } = await this.#git(['receive-pack', '--stateless-rpc', REPO], input);
    const environment = this.#environment();
    if (environment === null) return `${stderr.toString('latin1')}${stdout.toString('latin1')}`;
    const count = Number(environment.get('GIT_PUSH_OPTION_COUNT') ?? 0);
    const oid = environment.get('GIT_PUSH_CERT');
    return {
      commands: readFileSync(join(this.#reading, 'commands'), 'latin1'),
      pushOptions: Array.from({ length: count }, (_, n) => environment.get(`GIT_PUSH_OPTION_${n}`)!),
      certificate:
        oid === undefined ? null : { oid, hasNonce: environment.get('GIT_PUSH_CERT_NONCE_STATUS') === 'OK' },
      isReported: stdout.includes('unpack ok'),
      isBanded: isBand(stdout),
    };
  }

  /** Its exit code says nothing: the hook refuses every push. */
  async #git(args: readonly string[], input: Buffer): Promise<{ stdout: Buffer; stderr: Buffer }> {
    return await new Promise((resolve) => {
      const options = { cwd: this.#folder, env: this.#env, encoding: 'buffer', timeout: 60_000 } as const;
      const child = execFile('git', args, options, (_, stdout, stderr) => resolve({ stdout, stderr }));
      // It may have refused what it read before it has read it all.
      child.stdin!.on('error', () => {});
      child.stdin!.end(input);
    });
  }

  #environment(): Map<string, string> | null {
    try {
      const text = readFileSync(join(this.#reading, 'environment'), 'latin1');
      return new Map(
        text
          .split('\0')
          .map((entry) => [entry.slice(0, entry.indexOf('=')), entry.slice(entry.indexOf('=') + 1)]),
      );
    } catch {
      return null;
    }
  }
}

/** With side-band, the first packet begins with the number of a band, or there is none; without, it begins with a word. */
function isBand(answer: Buffer): boolean {
  const first = answer.length === 0 ? null : decodePkt(answer, 0);
  if (first === null) return false;
  return first.packet === null || first.packet[0]! <= 3;
}
