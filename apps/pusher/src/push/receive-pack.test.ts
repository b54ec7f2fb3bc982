import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { useTempFolder } from '@sluice/testkit';
import { expect, test } from 'vitest';
import { runReceivePack } from './receive-pack.ts';

const folder = useTempFolder();

test.each([
  ['pre-receive', 'printf "nonsense\\n.\\n" >&3'],
  ['proc-receive', 'printf "zzzz" >&5'],
])('a %s that says what nobody understands ends its push, and not this process', async (_, says) => {
  writeFileSync(join(folder.path, 'git'), `#!/bin/sh\n${says}\nsleep 300\n`, { mode: 0o755 });
  const end = await runReceivePack({
    folder: folder.path,
    env: { PATH: `${folder.path}:${process.env['PATH'] ?? ''}` },
    isBanded: true,
    input: Readable.from([Buffer.from('0000')]),
    onOutput: () => {},
    onPreReceive: () => Promise.resolve(null),
    onProcReceive: () => Promise.reject(new Error('is never asked')),
    timeoutMs: 600_000,
    memoryBytesMax: 1024 ** 3,
  });
  expect(end).toMatchObject({ exitCode: null, isAnswered: false });
});
