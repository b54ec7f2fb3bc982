import { withClient } from '../harness/bench-server.ts';
import type { Bench, Finding, Suite } from '../harness/suite.ts';
import { summarise } from '../measure/statistics.ts';
import { untilHotTablesBelow, watchHotTables } from './hot-table-sizes.ts';
import { feedTask } from './million-feed-task.ts';
import { runTask, type RunOutput } from './million-run-task.ts';

const MARK = 100_000;
const MIB = 2 ** 20;
const HOT_BYTES_MAX = 64 * MIB;
/** Autovacuum looks at each database once a minute, and then has work to do. */
const AUTOVACUUM_SECONDS_MAX = 90;

/** What a long run leaves behind, in the process and in the database. */
export const million: Suite = {
  name: 'million',
  about:
    'a million no-op effects of 1,000 repos through one dispatcher, fed so that at most 20,000 are unfinished; memory and size of the hot tables',
  tasks: [feedTask, runTask],
  run: (bench) => measure(bench, { unfinishedMax: 20_000 }),
};

/** The same, with the longest backlog there can be: indexes keep the size that it gave them, so none is demanded. */
export const millionWaiting: Suite = {
  name: 'million-waiting',
  about: 'the same with everything enqueued before; indexes keep the size of the longest backlog',
  tasks: [],
  run: (bench) => measure(bench, { unfinishedMax: Infinity }),
};

async function measure(bench: Bench, { unfinishedMax }: { unfinishedMax: number }): Promise<Finding[]> {
  const effects = bench.isQuick ? 150_000 : 1_000_000;
  const database = await bench.createDatabase('sluice');
  const { url } = database;
  const isFed = unfinishedMax < effects;
  const feed = () => bench.run(feedTask, 'sluice', { url, effects, unfinishedMax });
  if (!isFed) await feed();
  const running = bench.start(runTask, 'sluice', { url, effects, mark: MARK }, (done) =>
    bench.progress(`${String(done)} done`),
  );
  const feeding = isFed ? feed() : undefined;
  const sizes = await withClient(url, async (client) => {
    const watched = await watchHotTables(client, Promise.all([running.output, feeding]));
    bench.progress(`all done; hot tables: ${mib(watched.last)}, at most ${mib(watched.peak)}`);
    const secondsMax = bench.isQuick ? 5 : AUTOVACUUM_SECONDS_MAX;
    return { ...watched, after: await untilHotTablesBelow(client, { bytesMax: HOT_BYTES_MAX, secondsMax }) };
  });
  const output = await running.output;
  await database.drop();
  return findings({ effects, isFed, output, sizes });
}

function findings({
  effects,
  isFed,
  output: { rssAtMark, rssAtEnd, perSecond },
  sizes: { peak, last, after },
}: {
  effects: number;
  isFed: boolean;
  output: RunOutput;
  sizes: { peak: number; last: number; after: { bytes: number; seconds: number } };
}): Finding[] {
  const inMib = (bytes: number) => summarise([bytes / MIB]);
  return [
    {
      name: `resident memory of the dispatcher after ${effects} effects`,
      unit: 'MiB',
      sluice: inMib(rssAtEnd),
      peers: { [`sluice, after ${MARK}`]: inMib(rssAtMark) },
      ratio: rssAtEnd / rssAtMark,
      ratioOf: `after ${effects} / after ${MARK}`,
      target: { atMost: 1.2 },
    },
    {
      name: `effect_queue, effect_claim, effect_dedup and their indexes, ${Math.round(after.seconds)} s after the run`,
      unit: 'MiB',
      sluice: inMib(after.bytes),
      peers: { 'sluice, at the end of the run': inMib(last), 'sluice, at most during the run': inMib(peak) },
      ratio: after.bytes / HOT_BYTES_MAX,
      ratioOf: 'size / 64 MiB',
      ...(isFed ? { target: { atMost: 1 } } : {}),
    },
    {
      name: isFed ? 'rate, while a producer enqueued' : 'rate, with everything enqueued before',
      unit: 'effects/s',
      sluice: summarise([perSecond]),
      peers: {},
      ratio: perSecond / 1_000,
      ratioOf: 'thousands per second',
    },
  ];
}

function mib(bytes: number): string {
  return `${Math.round(bytes / MIB)} MiB`;
}
