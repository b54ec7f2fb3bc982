import fc from 'fast-check';
import { encodePkt, FLUSH } from '../src/wire/pkt-line.ts';
import { NONCE } from './git-reading.ts';

/** A tree that every sha1 repository has, so that a ref may name it. */
export const EMPTY_TREE = '4b825dc642cb6eb9a060e54bf8d69288fbee4904';

const ZERO = '0'.repeat(40);

const oids = fc.oneof(
  { weight: 30, arbitrary: fc.constantFrom(ZERO, EMPTY_TREE) },
  {
    weight: 1,
    arbitrary: fc.constantFrom('f'.repeat(40), EMPTY_TREE.toUpperCase(), 'a'.repeat(64), 'a'.repeat(39)),
  },
);

const names = fc.oneof(
  {
    weight: 10,
    arbitrary: fc.constantFrom('refs/heads/main', 'refs/heads/a b', 'refs/tags/caf\u00e9', 'HEAD'),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      '',
      'refs/heads/\u202ex',
      'refs/heads/a\nb',
      'refs/heads/a\r',
      'refs/heads/ERR ',
      ' ',
    ),
  },
);

const commands = fc.tuple(oids, oids, names).map(([oldOid, newOid, name]) => `${oldOid} ${newOid} ${name}`);

const CAPABILITIES = [
  'report-status',
  'report-status-v2',
  'side-band-64k',
  'push-options',
  'atomic',
  'quiet',
  'object-format=sha1',
  'agent=git/2.39.5',
];
const ODD_CAPABILITIES = [
  'push-options=1',
  'side-band-64k=x',
  'xpush-options',
  'push-optionsx',
  'a=push-options',
  'object-format',
  'object-format=sha256',
  'report-status\tpush-options',
  'quiet\0push-options',
  '',
];

const capabilities = fc
  .array(
    fc.oneof(
      { weight: 30, arbitrary: fc.constantFrom(...CAPABILITIES) },
      { weight: 1, arbitrary: fc.constantFrom(...ODD_CAPABILITIES) },
    ),
    { maxLength: 8 },
  )
  .map((words) => words.join(' '));

const pushOptions = fc.oneof(
  { weight: 15, arbitrary: fc.constantFrom('ci.skip', 'key=a value', '\u00e9', '') },
  { weight: 1, arbitrary: fc.constantFrom('a\nb', 'a\0b', 'ERR no', '\u001b[2J', ' x ') },
);

/** Lines that mean something elsewhere, or to another reader. */
const oddLines = fc.constantFrom(
  '',
  'push-cert',
  'push-cert-end',
  '-----BEGIN SSH SIGNATURE-----',
  '-----BEGIN PGP SIGNATURE-----',
  '\r-----BEGIN SIGNED MESSAGE-----',
  '-----END SSH SIGNATURE-----',
  'nonce 2-cd',
  'push-option odd',
  'note x',
  'ERR no',
  `${ZERO} ${EMPTY_TREE} refs/heads/odd`,
  `shallow ${EMPTY_TREE}`,
  `shallow ${EMPTY_TREE}\0push-options`,
);

const mutations = fc.record({
  kind: fc.constantFrom('drop', 'repeat', 'swap', 'insert', 'append', 'cut'),
  at: fc.nat(),
  other: fc.nat(),
  line: oddLines,
  tail: fc.constantFrom('\n', '\0', '\0push-options', '\0report-status', ' ', '\r', '\u00ff', 'ERR '),
});
type Mutation = typeof mutations extends fc.Arbitrary<infer T> ? T : never;

function few<T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T[]> {
  return fc.oneof(
    { weight: 4, arbitrary: fc.constant<T[]>([]) },
    { weight: 1, arbitrary: fc.array(arbitrary, { minLength: 1, maxLength: 2 }) },
  );
}

/** Changes a list of lines or packets as somebody would who looks for a difference between two readers. */
function mutate(list: (string | null)[], { kind, at, other, line, tail }: Mutation): void {
  if (list.length === 0) return;
  const index = at % list.length;
  const item = list[index]!;
  if (kind === 'drop') list.splice(index, 1);
  else if (kind === 'repeat') list.splice(other % (list.length + 1), 0, item);
  else if (kind === 'insert') list.splice(index, 0, line);
  else if (kind === 'swap') [list[index], list[other % list.length]] = [list[other % list.length]!, item];
  else if (item === null) return;
  else if (kind === 'append') list[index] = item + tail;
  else {
    const middle = other % (item.length + 1);
    list.splice(index, 1, item.slice(0, middle), item.slice(middle));
  }
}

const ARMOUR = ['-----BEGIN SSH SIGNATURE-----', 'U1NIU0lHAAAA', 'AAAA', '-----END SSH SIGNATURE-----'];

/** The text of a push certificate, its signature shaped like one; latin1 stands for bytes. */
export const certificates: fc.Arbitrary<string> = fc
  .record({
    options: fc.array(pushOptions, { maxLength: 2 }),
    commands: fc.array(commands, { minLength: 1, maxLength: 3 }),
    mutations: few(mutations),
    hasEnd: fc.boolean(),
  })
  .map(({ options, commands: list, mutations: changes, hasEnd }) => {
    const lines = [
      'certificate version 0.1',
      'pusher key 1700000000 +0000',
      'pushee http://host/a.git',
      `nonce ${NONCE}`,
      ...options.map((option) => `push-option ${option}`),
      '',
      ...list,
      ...ARMOUR,
    ].map(bytesOf);
    for (const change of changes) mutate(lines, change);
    return lines.join('\n') + (hasEnd ? '\n' : '');
  });

/** The preamble of a push, as somebody sends it who means no good: mostly well-formed, then changed here and there. */
export const preambles: fc.Arbitrary<Buffer> = fc
  .record({
    shallow: few(oids),
    capabilities,
    commands: fc.array(commands, { minLength: 1, maxLength: 3 }),
    options: fc.array(pushOptions, { maxLength: 3 }),
    certificate: fc.option(fc.tuple(certificates, fc.boolean()), { freq: 2 }),
    newlines: fc.boolean(),
    packets: few(mutations),
    lengths: few(
      fc.record({
        at: fc.nat(),
        digits: fc.constantFrom('0001', '0002', '0003', '0004', 'fff0', 'ffff', 'zzzz', '-001'),
      }),
    ),
    bytes: few(
      fc.record({
        at: fc.nat(),
        kind: fc.constantFrom('set', 'insert', 'remove'),
        byte: fc.nat({ max: 255 }),
      }),
    ),
  })
  .map((push) => {
    const end = push.newlines ? '\n' : '';
    // Null is a flush.
    const packets: (string | null)[] = push.shallow.map((oid) => `shallow ${oid}${end}`);
    if (push.certificate === null) {
      packets.push(
        ...push.commands
          .map((line, index) => line + (index === 0 ? `\0${push.capabilities}` : '') + end)
          .map(bytesOf),
      );
    } else {
      const [text, isWhole] = push.certificate;
      packets.push(
        `push-cert\0${push.capabilities}\n`,
        ...(isWhole ? [text] : text.split(/(?<=\n)/)),
        'push-cert-end\n',
      );
    }
    packets.push(null);
    if (push.capabilities.includes('push-options'))
      packets.push(...push.options.map((option) => bytesOf(option) + end), null);
    for (const change of push.packets) mutate(packets, change);
    const encoded = packets.map((packet) =>
      packet === null ? FLUSH : encodePkt(Buffer.from(packet, 'latin1')),
    );
    for (const { at, digits } of push.lengths)
      if (encoded.length > 0)
        encoded[at % encoded.length] = Buffer.concat([
          Buffer.from(digits),
          encoded[at % encoded.length]!.subarray(4),
        ]);
    const bytes = Array.from(Buffer.concat(encoded));
    for (const { at, kind, byte } of push.bytes)
      bytes.splice(at % (bytes.length + 1), kind === 'insert' ? 0 : 1, ...(kind === 'remove' ? [] : [byte]));
    return Buffer.from(bytes);
  });

function bytesOf(text: string): string {
  return Buffer.from(text).toString('latin1');
}
