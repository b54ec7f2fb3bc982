import { userInfo } from 'node:os';
import { readSettings, text, type Parser } from '@sluice/service-kit';
import { readPusherSettings, type Settings } from '../settings.ts';

export type HookSettings = Settings &
  Readonly<{
    /** Who pushes, as the server that runs git says. */
    pusher: string;
    /** Who may change what is below `refs/meta/`; nobody named: whoever may push. */
    admins: readonly string[];
  }>;

type Env = Readonly<Record<string, string | undefined>>;

/** Reads what the hook of an adopted repository is set to: the pusher's settings, and its own. */
export function readHookSettings(env: Env): HookSettings {
  const own = readSettings<{ pusher: string; admins: readonly string[] }>(
    {
      pusher: { name: 'SLUICE_PUSHER', parse: text(), default: accountName(), example: 'alice' },
      admins: { name: 'SLUICE_ADMINS', parse: names, default: [], example: 'alice,bob' },
    },
    env,
  );
  return { ...readPusherSettings(env), ...own };
}

const names: Parser<readonly string[]> = (value) => {
  const all = value.split(',');
  return all.every((name) => name !== '' && !/\p{Cc}/u.test(name))
    ? { value: all }
    : { expected: 'names with "," between them' };
};

/** The account that git runs as: all that is known where nobody says more. */
function accountName(): string {
  try {
    return userInfo().username;
  } catch {
    return String(process.getuid?.() ?? 'unknown');
  }
}
