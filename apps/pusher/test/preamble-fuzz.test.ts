import { parsePushCertificate } from '@sluice/effect-spec';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { HttpError } from '../src/http-error.ts';
import { PREAMBLE_BYTES_MAX, readOpening } from '../src/http/read-opening.ts';
import { encodePkt, FLUSH, PktLineError } from '../src/wire/pkt-line.ts';
import { parsePreamble, PreambleRefused } from '../src/wire/preamble.ts';
import { FUZZ_MS_MAX, fuzzSettings } from './fuzz-settings.ts';
import { certificates, EMPTY_TREE, preambles } from './preamble-arbitrary.ts';

const REFS_MAX = 4;
const limits = {
  bytesMax: PREAMBLE_BYTES_MAX,
  refsMax: REFS_MAX,
};

const noise = fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes));
const anything = fc.oneof(
  { weight: 8, arbitrary: preambles },
  { weight: 1, arbitrary: noise },
  { weight: 1, arbitrary: fc.tuple(preambles, noise).map((parts) => Buffer.concat(parts)) },
);

type Outcome = { read: unknown } | { refused: string } | { malformed: string } | 'probe' | 'incomplete';

/** Every answer there is; another error is a fault, and is thrown. */
function outcomeOf(bytes: Buffer): Outcome {
  try {
    const parsed = parsePreamble(bytes, limits);
    if (parsed === null) return 'incomplete';
    return parsed === 'probe' ? parsed : { read: parsed };
  } catch (error) {
    if (error instanceof PreambleRefused) return { refused: error.message };
    if (error instanceof PktLineError) return { malformed: error.message };
    throw error;
  }
}

test(
  'whatever comes is a preamble within the limits, too short, or refused by name',
  () => {
    const seen = new Map<string, number>();
    fc.assert(
      fc.property(anything, (bytes) => {
        const outcome = outcomeOf(bytes);
        const kind = typeof outcome === 'string' ? outcome : Object.keys(outcome)[0]!;
        seen.set(kind, (seen.get(kind) ?? 0) + 1);
        const parsed = kind === 'read' ? parsePreamble(bytes, limits) : null;
        if (parsed === null || parsed === 'probe') return;
        expect(parsed.commands.length).toBeGreaterThan(0);
        expect(parsed.commands.length).toBeLessThanOrEqual(REFS_MAX);
        expect(parsed.bytes).toBeLessThanOrEqual(bytes.length);
        expect(parsed.pushOptions.join('')).not.toMatch(/\p{Cc}/u);
      }),
      fuzzSettings({ few: 3000 }),
    );
    expect([...seen.keys()].toSorted()).toEqual(['incomplete', 'malformed', 'probe', 'read', 'refused']);
  },
  FUZZ_MS_MAX,
);

test(
  'what is said of a beginning holds, whatever follows: cut at every byte, it is too short or the same',
  () => {
    fc.assert(
      fc.property(preambles, (bytes) => {
        const whole = outcomeOf(bytes);
        for (let cut = 0; cut < bytes.length; cut += 1) {
          const part = outcomeOf(bytes.subarray(0, cut));
          if (part === 'incomplete') continue;
          expect({ cut, part }).toEqual({ cut, part: whole });
          break;
        }
      }),
      fuzzSettings({ few: 200, share: 50 }),
    );
  },
  FUZZ_MS_MAX,
);

test(
  'how the bytes arrive changes nothing',
  async () => {
    await fc.assert(
      fc.asyncProperty(
        anything,
        fc.array(fc.integer({ min: 1, max: 200 }), { minLength: 1 }),
        async (bytes, sizes) => {
          const outcome = await openingOf(chunksOf(bytes, sizes));
          const whole = outcomeOf(bytes);
          if (whole === 'incomplete')
            expect(outcome).toMatchObject({ malformed: expect.stringContaining('in the middle') });
          else if (typeof whole === 'object' && 'malformed' in whole)
            expect(outcome).toEqual({ malformed: `expected a push, got: ${whole.malformed}` });
          else expect(outcome).toEqual(whole);
        },
      ),
      fuzzSettings({ few: 500, share: 4 }),
    );
  },
  FUZZ_MS_MAX,
);

async function openingOf(body: AsyncGenerator<Buffer, void, void>): Promise<Outcome> {
  try {
    const opening = await readOpening(body, { refsPerPushMax: REFS_MAX });
    if (opening instanceof PreambleRefused) return { refused: opening.message };
    return opening === 'probe' ? opening : { read: opening.preamble };
  } catch (error) {
    if (error instanceof HttpError && error.status === 400) return { malformed: error.message };
    throw error;
  }
}

async function* chunksOf(bytes: Buffer, sizes: readonly number[]): AsyncGenerator<Buffer, void, void> {
  for (let at = 0, n = 0; at < bytes.length; n += 1) {
    const size = sizes[n % sizes.length]!;
    yield bytes.subarray(at, at + size);
    at += size;
  }
}

const zero = '0'.repeat(40);
const command = (name: string, more = ''): Buffer =>
  encodePkt(`${zero} ${EMPTY_TREE} refs/heads/${name}${more}`);

test.each<[string, Buffer, Buffer, RegExp]>([
  ['a certificate', encodePkt('push-cert\0'), encodePkt('x'), /at most 4 refs/],
  ['shallow commits', Buffer.alloc(0), encodePkt(`shallow ${EMPTY_TREE}`), /at most 2097152 bytes/],
  ['refs', Buffer.alloc(0), command('x'), /at most 4 refs/],
  [
    'signed refs',
    encodePkt('push-cert\0'),
    encodePkt(`${zero} ${EMPTY_TREE} refs/heads/x\n`),
    /at most 4 refs/,
  ],
  [
    'push options',
    Buffer.concat([command('x', '\0push-options'), FLUSH]),
    encodePkt('x'),
    /at most 64 push options/,
  ],
  ['the longest packets', encodePkt('push-cert\0'), encodePkt('x'.repeat(65_516)), /at most 2097152 bytes/],
])('of %s without end, no more is read than may be kept', async (_, begin, more, reason) => {
  const repeated = Buffer.concat(Array<Buffer>(Math.ceil(65_536 / more.length)).fill(more));
  let bytes = 0;
  async function* endless(): AsyncGenerator<Buffer, void, void> {
    yield begin;
    for (;;) {
      bytes += repeated.length;
      yield repeated;
    }
  }
  expect(await openingOf(endless())).toEqual({ refused: expect.stringMatching(reason) });
  expect(bytes).toBeLessThan(1.5 * PREAMBLE_BYTES_MAX + 2 * repeated.length);
});

test(
  'a certificate is understood to the last byte, or refused with a reason',
  () => {
    let read = 0;
    fc.assert(
      fc.property(
        fc.oneof(
          certificates.map((text) => Buffer.from(text, 'latin1')),
          noise,
        ),
        (bytes) => {
          const parsed = parsePushCertificate(bytes, { refsMax: REFS_MAX });
          if (typeof parsed === 'string') {
            expect(parsed).toMatch(/^expected /);
            return;
          }
          read += 1;
          const list = parsed.commands.map(
            ({ oldOid, newOid, name }) => `${oldOid} ${newOid} ${name.toString('latin1')}\n`,
          );
          const text = bytes.toString('latin1');
          expect(parsed.signed.toString('latin1') + parsed.signature).toBe(text);
          expect(parsed.signed.toString('latin1').endsWith(`\n\n${list.join('')}`)).toBe(true);
          expect(text).toContain(`\nnonce ${parsed.nonce}\n`);
          expect(text).toContain(`\npushee ${parsed.pushee}\n`);
        },
      ),
      fuzzSettings({ few: 2000 }),
    );
    expect(read).toBeGreaterThan(0);
  },
  FUZZ_MS_MAX,
);
