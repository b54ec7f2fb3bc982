import type { Finding, Suite } from '../harness/suite.ts';
import { dispatchTask } from './exact-dispatch-task.ts';
import { feedTask } from './exact-feed-task.ts';
import { exactFindings } from './exact-findings.ts';
import { runExact } from './exact-run.ts';
import { sampleTask } from './exact-sample-task.ts';

const GLOBAL_CAP = 40;

/** Whether caps are exact and nothing is lost, finished twice or believed too late, whatever happens to dispatchers. */
export const exact: Suite = {
  name: 'exact',
  about:
    '4 dispatcher processes, 200 repos with caps from 1 to 5, a global cap of 40 and then none; dispatchers are killed and frozen past their lease all the time',
  tasks: [sampleTask, feedTask, dispatchTask],
  async run(bench): Promise<Finding[]> {
    const ms = bench.isQuick ? 13_000 : 60_000;
    bench.progress(`with a global cap of ${GLOBAL_CAP}`);
    const capped = await runExact(bench, { ms, globalCap: GLOBAL_CAP });
    // Where one is set, claims take turns for its sake. Without it, each repo's own turn has to do.
    bench.progress('without a global cap');
    const open = await runExact(bench, { ms: (2 * ms) / 3, globalCap: null });
    return [...exactFindings(capped), ...exactFindings(open)];
  },
};
