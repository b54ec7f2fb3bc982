import { useTempFolder } from '@sluice/testkit';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { PktLineError } from '../src/wire/pkt-line.ts';
import { parsePreamble, PreambleRefused, type Preamble } from '../src/wire/preamble.ts';
import { FUZZ_MS_MAX, fuzzSettings } from './fuzz-settings.ts';
import { GitReader, readingOf } from './git-reading.ts';
import { preambles } from './preamble-arbitrary.ts';

const limits = { bytesMax: 100_000, refsMax: 100 };
const settings = fuzzSettings({ few: 150, share: 100 });
const folder = useTempFolder();

function parse(bytes: Buffer): Preamble | null {
  try {
    const parsed = parsePreamble(bytes, limits);
    return parsed === 'probe' ? null : parsed;
  } catch (error) {
    if (error instanceof PktLineError || error instanceof PreambleRefused) return null;
    throw error;
  }
}

test(
  'git takes every preamble that is taken here, and reads the same commands, options and certificate in it',
  async () => {
    const git = new GitReader(folder.path);
    const taken = { plain: 0, signed: 0 };
    await fc.assert(
      fc.asyncProperty(preambles, async (bytes) => {
        const preamble = parse(bytes);
        fc.pre(preamble !== null);
        taken[preamble.certificate === null ? 'plain' : 'signed'] += 1;
        expect(await git.read(bytes.subarray(0, preamble.bytes))).toEqual(readingOf(preamble));
      }),
      { ...settings, maxSkipsPerRun: 20 },
    );
    // Cases of both kinds have to get as far as git for this to say something.
    expect(Math.min(taken.plain, taken.signed)).toBeGreaterThan(settings.numRuns / 5);
  },
  FUZZ_MS_MAX,
);
