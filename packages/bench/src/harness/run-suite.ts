import { availableParallelism, cpus, totalmem } from 'node:os';
import { installTask } from '../suites/install-task.ts';
import { startTask } from './bench-process.ts';
import { startBenchServer } from './bench-server.ts';
import { progress } from './progress.ts';
import { rounds } from './rounds.ts';
import { resultOf, type SuiteResult } from './report.ts';
import type { Bench, Suite } from './suite.ts';

/** Starts a server, runs the suite on it, and stops it again. */
export async function runSuite(suite: Suite, isQuick: boolean): Promise<SuiteResult> {
  const startedAt = performance.now();
  const say = (text: string): void => {
    progress(
      `${suite.name} ${String(Math.round((performance.now() - startedAt) / 1_000)).padStart(3)} s  ${text}`,
    );
  };
  say('starting a PostgreSQL server');
  await using server = await startBenchServer();
  const bench: Bench = {
    isQuick,
    createDatabase: (contender) =>
      server.createDatabase(contender, (url) => startTask(installTask, contender, { url }).output),
    run(task, contender, input) {
      say(`${contender}: ${task.name}`);
      return startTask(task, contender, input).output;
    },
    start: startTask,
    *rounds({ quick, full }) {
      const most = isQuick ? quick : full;
      for (const round of rounds(most, isQuick, () => (performance.now() - startedAt) / 1_000)) {
        say(`round ${round} of ${most}`);
        yield round;
      }
    },
    progress: say,
  };
  const findings = await suite.run(bench);
  return resultOf(suite, findings, {
    isQuick,
    machine: machine(),
    server: server.settings,
    seconds: (performance.now() - startedAt) / 1_000,
  });
}

function machine(): Record<string, string | number> {
  return {
    node: process.versions.node,
    cores: availableParallelism(),
    cpu: cpus()[0]?.model ?? 'unknown',
    memoryGiB: Math.round(totalmem() / 2 ** 30),
  };
}
