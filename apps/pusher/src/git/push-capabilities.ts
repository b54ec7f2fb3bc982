import { join } from 'node:path';
import type { ObjectFormat } from '@sluice/ref-store';
import { capabilitiesOf } from '../wire/push-advertisement.ts';
import { gitEnvironment } from './git-environment.ts';
import { readGit } from './read-git.ts';
import { ensureRepoFolder } from './repo-folder.ts';
import { receivePackConfiguration, type ReceivePackConfiguration } from './serve-configuration.ts';

export interface PushCapabilitiesOptions extends Pick<
  ReceivePackConfiguration,
  'hooksFolder' | 'pushBytesMax'
> {
  dataDir: string;
  home: string;
}

const ASK_MS_MAX = 60_000;
const ANSWER_BYTES_MAX = 64 * 1024;

/**
 * What `git receive-pack` can do, as it says it itself of an empty repository: asked once for each object format, so that
 * what a push is shown takes no git process.
 */
export class PushCapabilities {
  readonly #options: PushCapabilitiesOptions;
  readonly #known = new Map<ObjectFormat, Promise<string>>();

  constructor(options: PushCapabilitiesOptions) {
    this.#options = options;
  }

  async of(format: ObjectFormat): Promise<string> {
    let answer = this.#known.get(format);
    if (answer === undefined) {
      answer = this.#ask(format);
      this.#known.set(format, answer);
      answer.catch(() => this.#known.delete(format));
    }
    return await answer;
  }

  async #ask(format: ObjectFormat): Promise<string> {
    const { dataDir, home, ...configuration } = this.#options;
    const folder = join(dataDir, 'empty', `${format}.git`);
    await ensureRepoFolder(folder, 'what a new repository looks like', format);
    const config = receivePackConfiguration({ ...configuration, folder, claimRef: null, nonceSeed: null });
    const advertisement = await readGit({
      args: ['receive-pack', '--http-backend-info-refs', folder],
      env: gitEnvironment({ home, config }),
      timeoutMs: ASK_MS_MAX,
      bytesMax: ANSWER_BYTES_MAX,
    });
    return capabilitiesOf(advertisement);
  }
}
