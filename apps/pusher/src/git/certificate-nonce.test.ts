import { gitIn, useTempFolder } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { makeNonce } from './certificate-nonce.ts';

const folder = useTempFolder();

test.each(['sha1', 'sha256'] as const)(
  'git shows the same nonce at the same time: %s',
  async (objectFormat) => {
    const git = gitIn(folder.path);
    const path = `${folder.path}/${objectFormat}.git`;
    await git(['init', '--quiet', '--bare', `--object-format=${objectFormat}`, path]);
    const seed = 'a seed';
    const shown = await git([
      '-c',
      `receive.certNonceSeed=${seed}`,
      'receive-pack',
      '--http-backend-info-refs',
      path,
    ]);
    const [, nonce, seconds] = / push-cert=((\d+)-[0-9a-f]+) /.exec(shown) ?? [];
    expect(makeNonce(seed, { folder: path, objectFormat, seconds: Number(seconds) })).toBe(nonce);
  },
);
