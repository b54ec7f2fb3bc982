import { parseArguments } from './harness/arguments.ts';
import { formatResult } from './harness/report.ts';
import { runSuite } from './harness/run-suite.ts';
import { SUITES } from './suites/suites.ts';

const USAGE = `Usage: npm run bench -- <suite> [--quick] [--json] [--no-fail]

${SUITES.map(({ name, about }) => `  ${name.padEnd(16)} ${about}`).join('\n')}

  --quick     a small size, within 50 seconds
  --json      the result as data on standard output
  --no-fail   exit with 0 although a target was missed`;

const parsed = parseArguments(
  process.argv.slice(2),
  SUITES.map(({ name }) => name),
);
if ('problem' in parsed) {
  console.error(`bench: ${parsed.problem}\n\n${USAGE}`);
  process.exitCode = 2;
} else {
  const { suite: name, isQuick, asJson, neverFail } = parsed.arguments;
  const suite = SUITES.find((candidate) => candidate.name === name)!;
  const result = await runSuite(suite, isQuick);
  console.log(asJson ? JSON.stringify(result) : formatResult(suite, result));
  if (!result.met && !neverFail) process.exitCode = 1;
}
