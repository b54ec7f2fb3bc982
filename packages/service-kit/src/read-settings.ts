import type { Parser } from './setting-parsers.ts';
import { SettingsError, type SettingProblem } from './settings-error.ts';

/** How one setting is called, read and explained. */
export interface Setting<T> {
  /** The environment variable. */
  name: string;
  parse: Parser<T>;
  /** A value that works, shown when the given one does not. */
  example: string;
  /** Used when the variable is unset or empty; without it the setting is required. */
  default?: T;
  /** The value never appears in a message. */
  isSecret?: boolean;
}

/**
 * Reads all settings, or throws one {@link SettingsError} that lists every wrong one.
 *
 * @example
 * const settings = readSettings(
 *   {
 *     listen: { name: 'SLUICE_LISTEN', parse: hostPort(), default: { host: '127.0.0.1', port: 7420 }, example: '127.0.0.1:7420' },
 *     token: { name: 'SLUICE_TOKEN', parse: text(), default: undefined, example: 'a long random text', isSecret: true },
 *   },
 *   process.env,
 * );
 */
export function readSettings<T extends Record<string, unknown>>(
  settings: { [K in keyof T]: Setting<T[K]> },
  env: Readonly<Record<string, string | undefined>>,
): Readonly<T> {
  const problems: SettingProblem[] = [];
  const values = Object.entries<Setting<unknown>>(settings).map(([key, setting]) => {
    const given = env[setting.name];
    // Compose files and shells pass unset variables on as empty text.
    if (given === undefined || given === '') {
      if (!('default' in setting))
        problems.push({
          name: setting.name,
          message: `is required; for example ${setting.name}=${setting.example}`,
        });
      return [key, setting.default];
    }
    const parsed = setting.parse(given);
    if ('value' in parsed) return [key, parsed.value];
    const got = setting.isSecret === true ? 'a value that is not shown' : JSON.stringify(given.slice(0, 100));
    problems.push({
      name: setting.name,
      message: `expected ${parsed.expected}, got ${got}; for example ${setting.name}=${setting.example}`,
    });
    return [key, undefined];
  });
  if (problems.length > 0) throw new SettingsError(problems);
  return Object.fromEntries(values) as T;
}
