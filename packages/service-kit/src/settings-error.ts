/** What is wrong with one setting. */
export interface SettingProblem {
  /** The environment variable. */
  name: string;
  /** What was expected, what was got, and an example. */
  message: string;
}

/** Every wrong or missing setting at once. The code is one of Sluice's error catalogue. */
export class SettingsError extends Error {
  readonly code = 'invalid_settings';
  readonly problems: readonly SettingProblem[];

  constructor(problems: readonly SettingProblem[]) {
    const lines = problems.map((problem) => `  ${problem.name}: ${problem.message}`);
    super(
      `${problems.length === 1 ? 'One setting is' : `${problems.length} settings are`} wrong:\n${lines.join('\n')}`,
    );
    this.name = 'SettingsError';
    this.problems = problems;
  }
}
