/** A configuration entry as git spells it: `['receive.unpackLimit', '1']`. Later ones win or add, as git defines. */
export type ConfigEntry = readonly [name: string, value: string];

export interface GitEnvironmentOptions {
  /** A folder without a git configuration. */
  home: string;
  config: readonly ConfigEntry[];
  /** What the client sent as `Git-Protocol`. */
  protocol?: string;
  /** Where the objects are, if not where the refs are. */
  objects?: string;
}

/**
 * The whole environment of a git process. Nothing is inherited but PATH: a stray GIT_DIR or a user's configuration
 * must not change what a push means. Configuration is passed by variables and not by `-c`, so that hooks and the
 * processes that git starts see it as well.
 */
export function gitEnvironment({
  home,
  config,
  protocol,
  objects,
}: GitEnvironmentOptions): Record<string, string> {
  const environment: Record<string, string> = {
    PATH: process.env['PATH'] ?? '/usr/local/bin:/usr/bin:/bin',
    HOME: home,
    LC_ALL: 'C',
    TZ: 'UTC',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_ATTR_NOSYSTEM: '1',
    // Else a ref below refs/replace/, which any writer may push, would put other content in an object's place.
    GIT_NO_REPLACE_OBJECTS: '1',
    GIT_TERMINAL_PROMPT: '0',
    GIT_CONFIG_COUNT: String(config.length),
  };
  for (const [index, [name, value]] of config.entries()) {
    environment[`GIT_CONFIG_KEY_${index}`] = name;
    environment[`GIT_CONFIG_VALUE_${index}`] = value;
  }
  if (protocol !== undefined) environment['GIT_PROTOCOL'] = protocol;
  if (objects !== undefined) environment['GIT_OBJECT_DIRECTORY'] = objects;
  return environment;
}
